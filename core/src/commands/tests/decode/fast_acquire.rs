//! Which answers a first attempt may accept as a grant, alone and in a batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Bson, Document, Timestamp, doc};

use super::super::{SENT, found, joining, request, take};
use super::{
    SERVER_NOW, assert_no_reply, assert_no_token, held_by, without_count, without_document,
    without_time,
};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, AcquireRequest};
use crate::commands::echo;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAcquired, who_was_granted};
use crate::commands::snapshot;

/// The answer to a call, in short.
#[derive(Debug, PartialEq)]
enum Answer {
    Granted(Option<Timestamp>),
    /// The holder.
    Refused(Option<String>),
    AskAgain {
        maybe_granted: bool,
    },
}

fn told(reply: AcquireReply) -> Answer {
    match reply {
        AcquireReply::Granted(granted) => {
            assert_eq!((granted.sent, granted.grant_id.as_str()), (SENT, "$call.3"));
            assert!(granted.info.name.starts_with("$name"), "{}", granted.info.name);
            Answer::Granted(granted.token)
        }
        AcquireReply::Refused(refused) => {
            assert_eq!((refused.sent, refused.ahead), (SENT, None));
            Answer::Refused(refused.info.value)
        }
        AcquireReply::UseSlowForm { maybe_granted } => Answer::AskAgain { maybe_granted },
    }
}

const NOTHING: Answer = Answer::AskAgain { maybe_granted: false };
const MAYBE: Answer = Answer::AskAgain { maybe_granted: true };

fn refused_for(value: &str) -> Answer {
    Answer::Refused(Some(value.to_owned()))
}

/// The operation time of the replies and commands here.
fn time() -> Timestamp {
    Timestamp { time: 1_700_000_000, increment: 5 }
}

/// A lease held with this value, by the grant of this id.
fn granted_as(value: &str, id: &str) -> Document {
    let mut document = held_by(value);
    let grant = document.get_document_mut("grant").unwrap();
    grant.insert("id", id);
    grant.insert("sentMicros", echo(SENT));
    document
}

/// The same with another expiry.
fn expiring(mut document: Document, expires_at: impl Into<Bson>) -> Document {
    document.insert("expiresAt", expires_at);
    document
}

/// The same without an expiry.
fn without_expiry(mut document: Document) -> Document {
    document.remove("expiresAt");
    document
}

/// Documents that may be read after the attempt; the answer to a call that does not wait, and to one that waits.
fn table() -> Vec<(Document, Answer, Answer)> {
    let own = || granted_as("$$NOW", "$call.3");
    let granted = || Answer::Granted(Some(time()));
    let mut without_grant = own();
    without_grant.remove("grant");
    let mut of_another = own();
    of_another.insert("grant", doc! { "value": "another", "id": "$call.3" });
    let mut odd_id = own();
    odd_id.get_document_mut("grant").unwrap().insert("id", 3);
    let mut without_echo = own();
    without_echo.get_document_mut("grant").unwrap().remove("sentMicros");
    let mut odd_echo = own();
    odd_echo.get_document_mut("grant").unwrap().insert("sentMicros", -1_i64);
    vec![
        (own(), granted(), granted()),
        // It has expired already: the caller's own clock decides for how long it is valid.
        (expiring(own(), SERVER_NOW), granted(), granted()),
        // A grant to another attempt.
        (granted_as("$$NOW", "$call.2"), NOTHING, NOTHING),
        (granted_as("$$NOW", "$call.30"), NOTHING, NOTHING),
        (granted_as("$$NOW", "$call."), NOTHING, NOTHING),
        (without_grant, NOTHING, NOTHING),
        (of_another, NOTHING, NOTHING),
        (odd_id, NOTHING, NOTHING),
        // This sending granted it: its validity counts from this sending, whatever the document says.
        (without_echo, granted(), granted()),
        (odd_echo, granted(), granted()),
        // Our grant id with another's value is no grant of ours.
        (granted_as("another", "$call.3"), refused_for("another"), NOTHING),
        (held_by("another"), refused_for("another"), NOTHING),
        (held_by(""), refused_for(""), NOTHING),
        // Free again, or free with a queue whose waiters have died.
        (expiring(held_by("another"), SERVER_NOW), NOTHING, NOTHING),
        (without_expiry(held_by("another")), NOTHING, NOTHING),
        (expiring(held_by("another"), Bson::Null), NOTHING, NOTHING),
        // Corrupt: the slow acquire reports how.
        (expiring(held_by("another"), "tomorrow"), NOTHING, NOTHING),
        (expiring(own(), "tomorrow"), MAYBE, MAYBE),
        (doc! {}, NOTHING, NOTHING),
    ]
}

/// A statement that is sent again may find the grant to an earlier sending: validity counts from the first one. The
/// time that stands in the document does not matter, because another program may have changed it.
#[test]
fn validity_counts_from_the_first_sending_that_may_be_granted() {
    let first = SENT.before(Duration::from_secs(3));
    let take = FastAcquire { resends: 1, first_sent: Some(first), ..waiting() };
    for (id, stands, wanted) in [
        ("$call.3", echo(first), first),
        ("$call.3", echo(SENT), first),
        ("$call.3", i64::MAX, first),
        ("$call.3.1", echo(first), SENT),
        ("$call.3.1", i64::MAX, SENT),
    ] {
        let mut document = granted_as("$$NOW", id);
        document.get_document_mut("grant").unwrap().insert("sentMicros", stands);
        let taken = FastAcquired { sent: SENT, at: time(), refused: HashSet::new() };
        let replies =
            who_was_granted(std::slice::from_ref(&take), &taken, vec![snapshot::read(&document)]);
        let [AcquireReply::Granted(granted)] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!(granted.sent, wanted);
    }
}

/// Each sending has its own grant id, and finds the grants to earlier ones.
#[test]
fn a_sending_believes_in_its_own_grants_and_earlier_ones() {
    for (resends, id, is_believed) in [
        (0, "$call.3", true),
        (0, "$call.3.1", false),
        (1, "$call.3", true),
        (1, "$call.3.1", true),
        (1, "$call.3.2", false),
        (2, "$call.3.1", true),
        (2, "$call.2.1", false),
        (2, "$call.31", false),
    ] {
        let first_sent = (resends > 0).then_some(SENT);
        let take = FastAcquire { resends, first_sent, ..waiting() };
        let taken = FastAcquired { sent: SENT, at: time(), refused: HashSet::new() };
        let found = snapshot::read(&granted_as("$$NOW", id));
        let [reply] = &who_was_granted(&[take], &taken, vec![found])[..] else { panic!() };
        match reply {
            AcquireReply::Granted(granted) => {
                assert!(is_believed && granted.grant_id.as_str() == id, "{id}")
            }
            AcquireReply::Refused(_) | AcquireReply::UseSlowForm { .. } => {
                assert!(!is_believed, "{resends} {id}: {reply:?}");
            }
        }
    }
    let own = |resends| FastAcquire { resends, ..waiting() }.build("locks", SENT).to_string();
    assert!(own(1).contains("\"$call.3.1\"") && !own(0).contains("\"$call.3.1\""));
}

fn waiting() -> FastAcquire {
    FastAcquire { request: joining().request, ..take() }
}

#[test]
fn a_first_attempt_believes_in_its_own_grant_alone() {
    for (document, once, in_line) in table() {
        let reply = found(document.clone());
        assert_eq!(told(take().decode(&reply, SENT).unwrap()), once, "{document}");
        assert_eq!(told(waiting().decode(&reply, SENT).unwrap()), in_line, "{document}");
    }
}

#[test]
fn first_attempts_together_believe_in_the_same() {
    for (mut document, once, in_line) in table() {
        // An empty document has no name by which it could be found.
        document.insert("name", "$name");
        let taken = FastAcquired { sent: SENT, at: time(), refused: HashSet::new() };
        let acquires = [take(), waiting()];
        let replies = who_was_granted(&acquires, &taken, vec![snapshot::read(&document)]);
        let replies: Vec<_> = replies.into_iter().map(told).collect();
        assert_eq!(replies, [once, in_line], "{document}");
    }
}

#[test]
fn a_first_attempt_without_a_document_or_a_time_is_no_answer() {
    assert_no_reply(&take(), without_document());
    for reply in without_time(&found(granted_as("$$NOW", "$call.3"))) {
        assert_no_token(&take(), &reply);
        // Without an oplog there is no operation time to read, and the token comes later.
        let request = Arc::new(AcquireRequest { has_oplog: false, ..request() });
        let standalone = FastAcquire { request, ..take() };
        let granted = standalone.decode(&reply, SENT).unwrap();
        assert_eq!(told(granted), Answer::Granted(None));
    }
}

/// Another program's symbol equals our string.
#[test]
fn a_lease_has_the_name_by_which_it_was_asked_for() {
    let mut document = held_by("another");
    document.insert("name", Bson::Symbol("$name".to_owned()));
    match take().decode(&found(document), SENT).unwrap() {
        AcquireReply::Refused(refused) => assert_eq!(refused.info.name, "$name"),
        other @ (AcquireReply::Granted(_) | AcquireReply::UseSlowForm { .. }) => {
            panic!("{other:?}")
        }
    }
}

fn many() -> FastAcquireMany {
    FastAcquireMany { acquires: vec![take()] }
}

#[test]
fn a_command_of_many_says_which_were_refused() {
    let decoded = |errors: Option<Bson>| {
        let mut reply = doc! { "n": 2, "ok": 1.0 };
        reply.extend(errors.map(|errors| ("writeErrors".to_owned(), errors)));
        reply.insert("operationTime", Timestamp { time: 1_700_000_000, increment: 5 });
        many().decode(&reply, SENT)
    };
    let error = |index: Bson| Bson::from(doc! { "index": index, "code": 11_000 });
    for (errors, wanted) in [
        (None, vec![]),
        (Some(Bson::Array(vec![])), vec![]),
        (Some(vec![error(0.into())].into()), vec![0]),
        (Some(vec![error(3.into()), error(1.into())].into()), vec![1, 3]),
    ] {
        let taken = decoded(errors).unwrap();
        let refused = wanted.into_iter().collect();
        assert_eq!(taken, FastAcquired { sent: SENT, at: time(), refused });
    }
    // A statement was refused, and it is unknown which: no call may be told that nothing was granted.
    let unplaced = [Bson::Null, Bson::Int64(0), Bson::Int32(-1), Bson::Double(0.0), "0".into()];
    let mut odd: Vec<_> = unplaced.map(error).to_vec();
    odd.extend([Bson::Null, 7.into(), doc! { "code": 11_000 }.into()]);
    for odd in odd {
        let errors = vec![error(1.into()), odd];
        let result = decoded(Some(errors.clone().into()));
        assert!(matches!(result, Err(DecodeError::Reply(_))), "{errors:?}: {result:?}");
    }
}

#[test]
fn a_command_of_many_without_a_count_or_a_time_is_no_answer() {
    let time = Timestamp { time: 9, increment: 3 };
    let timed = |mut reply: Document| {
        reply.insert("operationTime", time);
        reply
    };
    assert_no_reply(&many(), without_count().map(timed));
    // Whatever was granted, it has no token.
    for reply in without_time(&doc! { "n": 1 }) {
        assert_no_token(&many(), &reply);
    }
}

/// A call for this name, with a value and an id of its own.
fn call(name: &str, id: &str, waits: bool) -> FastAcquire {
    let joins = joining().request.joins.filter(|_| waits);
    let (name, value, call_id) = (name.to_owned(), id.to_owned(), id.into());
    let request = Arc::new(AcquireRequest { name, value, call_id, joins, ..request() });
    FastAcquire { request, attempt_no: 1, ..take() }
}

/// A document with this name, value and grant id.
fn lease(name: &str, value: &str, grant_id: &str) -> Document {
    let mut document = granted_as(value, grant_id);
    document.insert("name", name);
    document
}

#[test]
fn each_of_many_is_answered_by_what_stands_under_its_name() {
    let acquires = [
        call("a", "$call", false),
        call("b", "c2", false),
        // Two calls for one name, and a third that waits for it.
        call("c", "c3", false),
        call("c", "c4", false),
        call("c", "c5", true),
        call("d", "c6", false),
        call("e", "c7", false),
        call("f", "c8", false),
    ];
    // In any order, and with another program's document among them.
    let found = [
        lease("c", "c4", "c4.1"),
        lease("x", "c7", "c7.1"),
        lease("d", "c6", "c6.2"),
        lease("b", "another", "other.1"),
        lease("f", "c8", "c8.1"),
    ];
    // The server has refused the statements for `a` and for `f`; a grant of `f` is there all the same.
    let refused = HashSet::from([0, 7]);
    let taken = FastAcquired { sent: SENT, at: time(), refused };
    let replies = who_was_granted(&acquires, &taken, found.iter().map(snapshot::read).collect());
    assert_eq!(replies.len(), acquires.len());
    let short = |reply: &AcquireReply| match reply {
        AcquireReply::Granted(granted) => {
            format!("{} {:?}", granted.grant_id.as_str(), granted.token)
        }
        AcquireReply::Refused(refused) => format!("held by {:?}", refused.info.value),
        AcquireReply::UseSlowForm { maybe_granted } => format!("maybe {maybe_granted}"),
    };
    let replies: Vec<_> = replies.iter().map(short).collect();
    let time = time();
    let granted = |id: &str| format!("{id} {:?}", Some(time));
    let wanted = [
        // Refused, and no document is there.
        "maybe false".to_owned(),
        "held by Some(\"another\")".to_owned(),
        "held by Some(\"c4\")".to_owned(),
        granted("c4.1"),
        "maybe false".to_owned(),
        // Its value, and a grant to another attempt.
        "maybe false".to_owned(),
        // Not refused, and no document is there: it was granted, and is gone.
        "maybe true".to_owned(),
        granted("c8.1"),
    ];
    assert_eq!(replies, wanted);
}
