//! Which grants a first attempt may accept, alone and in a batch.

use std::collections::HashSet;
use std::time::Duration;

use crate::bson::{Document, doc};

use super::super::{JOINS, SENT, TOKEN, fast, held, request, take, with};
use crate::commands::acquire::{AcquireReply, AcquireRequest};
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAcquired, who_was_granted};
use crate::commands::{Command, echo, snapshot};

/// The answers of a batch in which the server refused these statements, by what stands in these documents.
fn answers(acquires: &[FastAcquire], refused: &[usize], found: &[Document]) -> Vec<AcquireReply> {
    let refused: HashSet<usize> = refused.iter().copied().collect();
    let taken = FastAcquired { sent: SENT, at: TOKEN, refused, granted: 0 };
    who_was_granted(acquires, &taken, found.iter().map(snapshot::read).collect())
}

/// Each sending of a statement has its own grant id, and finds the grants to earlier ones: then validity counts from
/// the first sending. The time that stands in the document does not matter: another program may have changed it.
#[test]
fn validity_counts_from_the_first_sending_that_may_be_granted() {
    let first = SENT.before(Duration::from_secs(3));
    for (resends, id, wanted) in [
        (0, "$call.3", Some(SENT)),
        (0, "$call.3.1", None),
        (1, "$call.3", Some(first)),
        (1, "$call.3.1", Some(SENT)),
        (2, "$call.3.1", Some(first)),
        (2, "$call.2.1", None),
        (2, "$call.31", None),
    ] {
        let first_sent = (resends > 0).then_some(first);
        let take = FastAcquire { resends, first_sent, ..take() };
        for stands in [echo(first), echo(SENT), i64::MAX] {
            let grant = doc! { "value": "$$NOW", "id": id, "sentMicros": stands };
            let found = with(held("$$NOW", id), "grant", grant);
            let reply = answers(std::slice::from_ref(&take), &[], &[found]).remove(0);
            let granted = match &reply {
                AcquireReply::Granted(granted) => Some((granted.grant_id.as_str(), granted.sent)),
                AcquireReply::Refused(_) | AcquireReply::UseSlowForm { .. } => None,
            };
            assert_eq!(granted, wanted.map(|sent| (id, sent)), "{resends} {id} {stands}");
        }
    }
    let own = |resends| FastAcquire { resends, ..take() }.build("locks", SENT).to_string();
    assert!(own(1).contains("\"$call.3.1\"") && !own(0).contains("\"$call.3.1\""));
}

/// A call for this name, with a value and an id of its own.
fn call(name: &str, id: &str, waits: bool) -> FastAcquire {
    let (name, value, call_id) = (name.to_owned(), id.to_owned(), id.into());
    let joins = waits.then_some(JOINS);
    let request = AcquireRequest { name, value, call_id, joins, ..request() };
    FastAcquire { attempt_no: 1, ..fast(request) }
}

#[test]
fn each_of_many_is_answered_by_what_stands_under_its_name() {
    let granted = |id: &str| format!("granted {id}");
    let refused = |value: &str| format!("held by {value}");
    let gone = || "maybe false".to_owned();
    let table = [
        // The server has refused this statement, and no document is there.
        (call("a", "$call", false), gone()),
        (call("b", "c2", false), refused("another")),
        // Two calls for one name, and a third that waits for it.
        (call("c", "c3", false), refused("c4")),
        (call("c", "c4", false), granted("c4.1")),
        (call("c", "c5", true), gone()),
    ];
    let lease = |name, value, grant_id| with(held(value, grant_id), "name", name);
    // In any order, and with another program's document among them.
    let found =
        [lease("c", "c4", "c4.1"), lease("x", "c3", "c3.1"), lease("b", "another", "other.1")];
    let (acquires, wanted): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    let told = |reply| match reply {
        AcquireReply::Granted(it) => {
            assert_eq!(it.token, Some(TOKEN));
            granted(it.grant_id.as_str())
        }
        AcquireReply::Refused(it) => refused(&it.info.value.unwrap()),
        AcquireReply::UseSlowForm { maybe_granted } => format!("maybe {maybe_granted}"),
    };
    let replies: Vec<_> = answers(&acquires, &[0], &found).into_iter().map(told).collect();
    assert_eq!(replies, wanted);
}

#[test]
fn a_batch_counts_what_it_inserted_and_what_it_changed() {
    let upserted = vec![doc! { "index": 0, "_id": 1 }, doc! { "index": 2, "_id": 2 }];
    let reply = doc! { "n": 3, "nModified": 1, "upserted": upserted, "operationTime": TOKEN };
    let acquires = ["a", "b", "c"].map(|name| call(name, name, false)).to_vec();
    let taken = FastAcquireMany { acquires }.decode(&reply, SENT).unwrap();
    assert_eq!((taken.granted, taken.at, taken.refused), (3, TOKEN, HashSet::new()));
}
