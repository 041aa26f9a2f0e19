mod admissions;
mod fast_acquire;
mod permits;
mod queue;
mod watch;

use std::fmt;
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::spec::EndScope;

use super::{SENT, acquire, beat, found, renewed, request, target, tick, values};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, SlowAcquire};
use crate::commands::find::FindLeases;
use crate::commands::probe::{DryRun, Hello};
use crate::commands::release::{Delete, End, EndLater, GrantMatch};
use crate::commands::renew::RenewMany;
use crate::commands::renew_holders::RenewHolders;
use crate::commands::reply::{Ended, Matched};

/// The server's time of the replies here.
const SERVER_NOW: DateTime = DateTime::from_millis(1_700_000_000_000);

/// The document of a lease held with this value, as the projection shows it.
fn held_by(value: &str) -> Document {
    doc! {
        "name": "$name",
        "value": value,
        "now": SERVER_NOW,
        "expiresAt": DateTime::from_millis(1_700_000_031_000),
        "grant": { "value": value, "id": "$call.2", "sentMicros": 5_i64, "ttlMs": 30_000_i64 },
    }
}

/// Replies of a `findAndModify` without a document.
fn without_document() -> [Document; 4] {
    [doc! {}, found(Bson::Null), found("x"), found(vec![held_by("$$NOW")])]
}

/// The reply without the time of its operation.
fn without_time(reply: &Document) -> [Document; 4] {
    [None, Some(Bson::Null), Some(7.into()), Some(DateTime::now().into())].map(|time| {
        let mut reply = reply.clone();
        reply.remove("operationTime");
        reply.extend(time.map(|time| ("operationTime".to_owned(), time)));
        reply
    })
}

/// Replies without a count of documents.
fn without_count() -> [Document; 4] {
    [doc! {}, doc! { "n": 1.0 }, doc! { "n": "1" }, doc! { "n": Bson::Null }]
}

/// Replies without a batch of documents.
fn without_batch() -> [Document; 3] {
    [doc! {}, doc! { "cursor": 7 }, doc! { "cursor": { "firstBatch": {} } }]
}

/// Fails unless each of these replies is none of the command's.
#[track_caller]
fn assert_no_reply<C: Command>(command: &C, replies: impl IntoIterator<Item = Document>) {
    for reply in replies {
        let cause = command.decode(&reply, SENT).err();
        assert!(matches!(cause, Some(DecodeError::Reply(_))), "{reply}: {cause:?}");
    }
}

/// Fails unless this grant is none for want of a token.
#[track_caller]
fn assert_no_token<C: Command>(command: &C, reply: &Document) {
    let cause = command.decode(reply, SENT).err();
    assert!(matches!(cause, Some(DecodeError::Unsupported(_))), "{reply}: {cause:?}");
}

/// Fails unless the reply is the count of documents that match, and an error no count.
#[track_caller]
fn assert_counts<C: Command>(command: &C, wanted: impl Fn(i64) -> C::Reply)
where
    C::Reply: fmt::Debug + PartialEq,
{
    let small = [0, 1, 2].map(|count| (Bson::Int32(count), count.into()));
    for (n, count) in small.into_iter().chain([(Bson::Int64(1_000), 1_000)]) {
        // Matches count, and not changes: two heartbeats within one millisecond change nothing.
        for reply in [doc! { "n": &n, "ok": 1.0 }, doc! { "n": &n, "nModified": 0, "ok": 1.0 }] {
            assert_eq!(command.decode(&reply, SENT).unwrap(), wanted(count), "{reply}");
        }
    }
    let busy = doc! { "writeErrors": [{ "index": 0, "code": 112, "errmsg": "busy" }], "n": 1 };
    let invalid = doc! { "writeErrors": [{ "index": 0, "code": 121, "errmsg": "no" }], "n": 0 };
    let nameless = doc! { "writeErrors": [7], "n": 1 };
    for reply in without_count().into_iter().chain([busy, invalid, nameless]) {
        let cause = command.decode(&reply, SENT).err();
        let is_none = matches!(cause, Some(DecodeError::Reply(_) | DecodeError::Write { .. }));
        assert!(is_none, "{reply}: {cause:?}");
    }
}

fn refusal(reply: &Document) -> crate::info::LeaseInfo {
    match acquire().decode(reply, SENT).unwrap() {
        AcquireReply::Refused(refused) => refused.info,
        other @ (AcquireReply::Granted(_) | AcquireReply::UseSlowForm { .. }) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn a_document_with_our_value_and_grant_decodes_as_granted() {
    let AcquireReply::Granted(granted) = acquire().decode(&found(held_by("$$NOW")), SENT).unwrap()
    else {
        panic!("refused");
    };
    // The attempt that was granted, which is not the one whose answer this is.
    assert_eq!((granted.sent, granted.grant_id.as_str()), (SENT, "$call.2"));
    assert_eq!(granted.token, Some(Timestamp { time: 1_700_000_000, increment: 5 }));
    assert_eq!(granted.info.value.as_deref(), Some("$$NOW"));
}

#[test]
fn everything_else_is_a_refusal() {
    let info = refusal(&found(held_by("another")));
    assert_eq!((info.name.as_str(), info.value.as_deref()), ("$name", Some("another")));
    assert_eq!(info.remaining.unwrap().as_millis(), 31_000);
    // Our value, with a grant that is another's, has no valid form, or is missing.
    for grant in [
        Bson::Null,
        "x".into(),
        doc! {}.into(),
        doc! { "value": "another", "id": "$call.2" }.into(),
        doc! { "value": "$$NOW" }.into(),
        doc! { "value": "$$NOW", "id": 7 }.into(),
        vec![held_by("$$NOW")].into(),
    ] {
        let mut document = held_by("$$NOW");
        document.insert("grant", grant);
        refusal(&found(document));
    }
    // Our value in a corrupt document: its expiry is unknown.
    let mut damaged = held_by("$$NOW");
    damaged.insert("expiresAt", "tomorrow");
    refusal(&found(damaged));
    refusal(&found(doc! {}));
}

#[test]
fn a_reply_without_a_document_or_without_its_time_is_neither() {
    assert_no_reply(&acquire(), without_document());
    // A token is never made up.
    for mut reply in without_time(&found(held_by("$$NOW"))) {
        assert_no_token(&acquire(), &reply);
        // A refusal needs none.
        reply.insert("value", held_by("another"));
        refusal(&reply);
    }
}

#[test]
fn without_an_oplog_the_token_comes_later() {
    let request = std::sync::Arc::new(crate::commands::acquire::AcquireRequest {
        has_oplog: false,
        ..request()
    });
    let mut reply = found(held_by("$$NOW"));
    for _ in 0..2 {
        let acquire = SlowAcquire { request: request.clone(), attempt_no: 1, predecessor: None };
        let AcquireReply::Granted(granted) = acquire.decode(&reply, SENT).unwrap() else {
            panic!("refused");
        };
        assert_eq!(granted.token, None);
        reply.remove("operationTime");
    }
}

#[test]
fn releases_and_what_prolongs_count_what_they_touched() {
    let (one, targets) = (target(GrantMatch::Any), vec![target(GrantMatch::Any)]);
    let ended = |count| Ended { count, at: None };
    assert_counts(&Delete { targets: targets.clone() }, ended);
    let scope = EndScope::HeldOrQueued;
    assert_counts(&End { targets, scope, values: values() }, ended);
    let hold_at_least = Duration::ZERO;
    let later = EndLater { target: one, hold_at_least, values: values() };
    assert_counts(&later, |count| count > 0);
    let matched = |matched| Matched { sent: SENT, matched };
    assert_counts(&RenewMany { grants: vec![renewed()] }, matched);
    assert_counts(&RenewHolders { grants: vec![renewed()] }, matched);
    assert_counts(&beat(), matched);
}

#[test]
fn a_resume_finds_its_lease_or_nothing() {
    let resume = super::resume("$fresh");
    let mut ours = held_by("$$NOW");
    ours.get_document_mut("grant").unwrap().insert("id", "$fresh");
    let (sent, seen) = resume.decode(&found(ours), SENT).unwrap().unwrap();
    assert_eq!((sent, seen.ttl_ms), (SENT, Some(30_000)));
    // Not a match: the id before the resume, another grant of the same value, another value.
    let mut before = held_by("$$NOW");
    before.get_document_mut("grant").unwrap().insert("id", "$call.3");
    // Nor is a reply without the ttl that was written: the holder would rely on another.
    let mut no_ttl = held_by("$$NOW");
    let grant = no_ttl.get_document_mut("grant").unwrap();
    grant.insert("id", "$fresh");
    grant.remove("ttlMs");
    let others = [before, held_by("$$NOW"), held_by("another"), no_ttl, doc! {}];
    assert_no_reply(&resume, others.map(found));
    for reply in [doc! {}, found(Bson::Null), found(7)] {
        assert_eq!(resume.decode(&reply, SENT).unwrap(), None, "{reply}");
    }
}

#[test]
fn a_tick_is_a_timestamp_or_nothing() {
    let time = Timestamp { time: 9, increment: 3 };
    let reply = found(doc! { "grant": { "standaloneToken": time } });
    assert_eq!(tick().decode(&reply, SENT).unwrap(), Some(Timestamp { time: 9, increment: 3 }));
    assert_eq!(tick().decode(&found(Bson::Null), SENT).unwrap(), None);
    let date = doc! { "grant": { "standaloneToken": DateTime::now() } };
    assert_no_reply(&tick(), [doc! {}, doc! { "grant": 1 }, date].map(found));
}

#[test]
fn looks_read_what_are_documents() {
    let look = FindLeases { names: vec![], after: None };
    let batch = vec![Bson::from(held_by("v")), Bson::Null, 7.into(), doc! {}.into()];
    let seen = look.decode(&doc! { "cursor": { "firstBatch": batch } }, SENT).unwrap();
    assert_eq!(seen.len(), 2);
    assert_no_reply(&look, without_batch());
}

#[test]
fn a_server_is_taken_for_what_it_says_it_is() {
    let time = Timestamp { time: 9, increment: 3 };
    let standalone = doc! { "maxWireVersion": 17 };
    assert!(!Hello.decode(&standalone, SENT).unwrap().has_oplog);
    for more in [doc! { "setName": "rs" }, doc! { "msg": "isdbgrid" }] {
        let mut hello = standalone.clone();
        hello.extend(more);
        // Without an operation time there are no tokens, and none is made up.
        assert!(matches!(Hello.decode(&hello, SENT), Err(DecodeError::Unsupported(_))));
        hello.insert("operationTime", time);
        assert!(Hello.decode(&hello, SENT).unwrap().has_oplog);
    }
    for old in [doc! {}, doc! { "maxWireVersion": 8 }, doc! { "maxWireVersion": "17" }] {
        assert!(matches!(Hello.decode(&old, SENT), Err(DecodeError::Unsupported(_))), "{old}");
    }
    let dry_run = DryRun;
    assert!(dry_run.decode(&found(Bson::Null), SENT).is_ok());
    assert!(dry_run.decode(&doc! {}, SENT).is_ok());
    assert!(matches!(dry_run.decode(&found(doc! {}), SENT), Err(DecodeError::Unsupported(_))));
}
