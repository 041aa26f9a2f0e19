//! Which answers an admission, a release and a renewal of permits may accept.

use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::rules::permits::Permits;

use super::super::{SENT, found, joining, renewed, request};
use super::{
    SERVER_NOW, assert_no_reply, assert_no_token, held_by, without_document, without_time,
};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::FastAdmit;
use crate::commands::renew_holders::RenewHolders;

/// The answer to a call, in short.
#[derive(Debug, PartialEq)]
enum Answer {
    Granted { id: String, token: Option<Timestamp> },
    Refused { remaining: Option<Duration>, ahead: Option<u32> },
    AskAgain,
}

fn told(reply: AcquireReply) -> Answer {
    match reply {
        AcquireReply::Granted(granted) => {
            assert_eq!((granted.sent, granted.info.name.as_str()), (SENT, "$name"));
            Answer::Granted { id: granted.grant_id.as_str().to_owned(), token: granted.token }
        }
        AcquireReply::Refused(refused) => {
            assert_eq!((refused.sent, refused.info.name.as_str()), (SENT, "$name"));
            Answer::Refused { remaining: refused.info.remaining, ahead: refused.ahead }
        }
        AcquireReply::UseSlowForm { maybe_granted } => {
            assert!(!maybe_granted, "its slow form finds its own grant");
            Answer::AskAgain
        }
    }
}

fn granted(id: &str) -> Answer {
    Answer::Granted {
        id: id.to_owned(),
        token: Some(Timestamp { time: 1_700_000_000, increment: 5 }),
    }
}

fn refused(remaining_ms: u64, ahead: Option<u32>) -> Answer {
    Answer::Refused { remaining: Some(Duration::from_millis(remaining_ms)), ahead }
}

/// A call for a share that does not wait, and one that does.
fn requests() -> [Arc<AcquireRequest>; 2] {
    let of = |joins| AcquireRequest { permits: Permits::SHARED, joins, ..request() };
    [None, joining().request.joins].map(of).map(Arc::new)
}

/// The slow form of both.
fn admits() -> [SlowAcquire; 2] {
    requests().map(|request| SlowAcquire { request, attempt_no: 3, predecessor: None })
}

fn fast(request: Arc<AcquireRequest>) -> FastAdmit {
    FastAdmit { request, attempt_no: 3 }
}

fn fast_once() -> FastAdmit {
    let [once, _] = requests();
    fast(once)
}

/// A lease that several hold, with this in `shared`, as the projection shows it.
fn shared(shown: Document) -> Document {
    let mut document = held_by("mongo-lease/shared");
    document.insert("shared", shown);
    document.insert("hasQueue", false);
    document
}

/// The same with this field instead.
fn with(mut document: Document, field: &str, value: impl Into<Bson>) -> Document {
    document.insert(field, value);
    document
}

/// Values that are no text.
fn no_texts() -> [Bson; 5] {
    [Bson::Null, 7.into(), vec!["$call.3"].into(), doc! { "a": 1 }.into(), DateTime::now().into()]
}

#[test]
fn an_admission_is_granted_by_its_own_holder_alone() {
    for admit in admits() {
        let decoded = |document| told(admit.decode(&found(document), SENT).unwrap());
        // The first grant of the call, which an earlier attempt or a hand-off has made.
        for id in ["$call.3", "$call.1", ""] {
            assert_eq!(
                decoded(shared(doc! { "own": { "id": id }, "firstMs": 5_i64 })),
                granted(id)
            );
        }
        // Others hold it; until the first of them expires, and not the last.
        assert_eq!(decoded(shared(doc! { "firstMs": 1_500_i64 })), refused(1_500, None));
        // The list is corrupt, or nobody holds it, or an exclusive holder does.
        assert_eq!(decoded(shared(doc! {})), refused(31_000, None));
        assert_eq!(decoded(held_by("another")), refused(31_000, None));
        // Not by the value in the document: an exclusive grant is no share.
        assert_eq!(decoded(held_by("$$NOW")), refused(31_000, None));
        for odd in no_texts() {
            let shown = doc! { "own": { "id": odd.clone() }, "firstMs": 5_i64 };
            assert_eq!(decoded(shared(shown)), refused(5, None), "{odd}");
            assert_eq!(decoded(with(shared(doc! {}), "shared", odd)), refused(31_000, None));
        }
    }
}

/// The document may expire later, with another holder, and an earlier call with the same value may have other permits.
#[test]
fn a_grant_has_the_expiry_and_the_permits_of_its_own_record() {
    let at = DateTime::from_millis(1_700_000_009_000);
    let record = doc! { "id": "$call.3", "expiresAt": at, "permits": 3_i64, "limit": 4_i64 };
    let reply = |own: Document| found(shared(doc! { "own": own, "firstMs": 5_i64 }));
    let share = |answer| match answer {
        AcquireReply::Granted(granted) => granted.share.unwrap(),
        other @ (AcquireReply::Refused(_) | AcquireReply::UseSlowForm { .. }) => {
            panic!("{other:?}")
        }
    };
    let fast = fast_once();
    let [once, _] = admits();
    for decoded in [once.decode(&reply(record.clone()), SENT), fast.decode(&reply(record), SENT)] {
        let share = share(decoded.unwrap());
        assert_eq!(share.permits, Permits::new(3, 4).unwrap());
        assert_eq!(share.expires_at.unwrap().timestamp_millis(), at.timestamp_millis());
    }
    // Not in order: then those that the call asks for.
    let odd = doc! { "id": "$call.3", "permits": 9_i64, "limit": 4_i64 };
    let share = share(once.decode(&reply(odd), SENT).unwrap());
    assert_eq!((share.permits, share.expires_at), (once.request.permits, None));
}

#[test]
fn a_refused_admission_knows_the_permits_in_use() {
    let counts = |shown: Document| {
        let reply = found(shared(shown));
        let replies = [admits()[0].decode(&reply, SENT), fast_once().decode(&reply, SENT)];
        replies.map(|reply| match reply.unwrap() {
            AcquireReply::Refused(refused) => (refused.info.in_use, refused.info.limit),
            other @ (AcquireReply::Granted(_) | AcquireReply::UseSlowForm { .. }) => {
                panic!("{other:?}")
            }
        })
    };
    for (in_use, limit, wanted) in [
        (5_i64, 5_i64, (Some(5), Some(5))),
        // Numbers that no call can ask for.
        (i64::MAX, -1, (None, None)),
        (i64::MIN, i64::MAX, (None, None)),
    ] {
        assert_eq!(counts(doc! { "inUse": in_use, "limit": limit }), [wanted; 2]);
    }
    // One of them alone says nothing.
    for shown in [doc! {}, doc! { "inUse": 5_i64 }, doc! { "inUse": "5", "limit": 5_i64 }] {
        assert_eq!(counts(shown), [(None, None); 2]);
    }
}

#[test]
fn a_refused_admission_knows_its_place_and_the_first_expiry() {
    let [_, joining] = admits();
    let decoded = |document| told(joining.decode(&found(document), SENT).unwrap());
    let lease = || shared(doc! { "firstMs": 7_i64 });
    for (ahead, place) in [(0, Some(0)), (41, Some(41)), (-1, None), (i32::MIN, None)] {
        assert_eq!(decoded(with(lease(), "ahead", ahead)), refused(7, place));
    }
    for odd in no_texts().into_iter().filter(|odd| odd.as_i32().is_none()) {
        assert_eq!(decoded(with(lease(), "ahead", odd)), refused(7, None));
    }
    // Times of other types: the latest expiry is known still.
    for odd in [Bson::Null, Bson::Int32(7), Bson::Double(7.0), "7".into(), SERVER_NOW.into()] {
        assert_eq!(decoded(shared(doc! { "firstMs": odd })), refused(31_000, None));
    }
    // No time is negative.
    assert_eq!(decoded(shared(doc! { "firstMs": -1_i64 })), refused(0, None));
}

#[test]
fn a_fast_admission_believes_in_its_own_attempt_alone() {
    let mut free = shared(doc! {});
    free.insert("expiresAt", SERVER_NOW);
    let held = || shared(doc! { "firstMs": 1_500_i64 });
    let alone = || refused(1_500, None);
    let own = |id: &str| shared(doc! { "own": { "id": id }, "firstMs": 5_i64 });
    let table = [
        (own("$call.3"), granted("$call.3"), granted("$call.3")),
        // Of another attempt: the slow form reads and prolongs it.
        (own("$call.1"), Answer::AskAgain, Answer::AskAgain),
        (own("$call.30"), Answer::AskAgain, Answer::AskAgain),
        (held(), alone(), Answer::AskAgain),
        // An exclusive holder, and a corrupt list: nobody is admitted beside them.
        (with(held_by("another"), "hasQueue", false), refused(31_000, None), Answer::AskAgain),
        (shared(doc! {}), refused(31_000, None), Answer::AskAgain),
        // Somebody is in the queue, and may be dead.
        (with(held(), "hasQueue", true), Answer::AskAgain, Answer::AskAgain),
        (with(held(), "hasQueue", Bson::Null), Answer::AskAgain, Answer::AskAgain),
        // Free by now, or corrupt: the slow form can tell.
        (free, Answer::AskAgain, Answer::AskAgain),
        (with(held(), "expiresAt", "tomorrow"), Answer::AskAgain, Answer::AskAgain),
        (doc! {}, Answer::AskAgain, Answer::AskAgain),
        // The exclusive lease has the value of this call.
        (with(held_by("$$NOW"), "hasQueue", false), Answer::AskAgain, Answer::AskAgain),
    ];
    for (document, once, waiting) in table {
        for (request, wanted) in requests().into_iter().zip([once, waiting]) {
            let decoded = fast(request).decode(&found(document.clone()), SENT).unwrap();
            assert_eq!(told(decoded), wanted, "{document}");
        }
    }
    let mut without_queue = held();
    without_queue.remove("hasQueue");
    let decoded = fast_once().decode(&found(without_queue), SENT).unwrap();
    assert_eq!(told(decoded), Answer::AskAgain);
}

#[test]
fn an_admission_without_a_document_or_a_time_is_no_answer() {
    let own = found(shared(doc! { "own": { "id": "$call.3" } }));
    let [once, _] = admits();
    assert_no_reply(&once, without_document());
    assert_no_reply(&fast_once(), without_document());
    let standalone =
        Arc::new(AcquireRequest { has_oplog: false, permits: Permits::SHARED, ..request() });
    let refusals = without_time(&found(held_by("another")));
    for (reply, refusal) in without_time(&own).into_iter().zip(refusals) {
        assert_no_token(&once, &reply);
        assert_no_token(&fast_once(), &reply);
        // A refusal needs none.
        let refusal = once.decode(&refusal, SENT).unwrap();
        assert_eq!(told(refusal), refused(31_000, None));
        // Without an oplog there is none, and the token comes later.
        let id = "$call.3".to_owned();
        let later = SlowAcquire { request: standalone.clone(), ..once.clone() };
        for decoded in [later.decode(&reply, SENT), fast(standalone.clone()).decode(&reply, SENT)] {
            assert_eq!(told(decoded.unwrap()), Answer::Granted { id: id.clone(), token: None });
        }
    }
}

/// It may have other statements, and they may have been applied.
#[test]
fn a_refused_renewal_of_permits_may_be_applied() {
    let renew = RenewHolders { grants: vec![renewed()] };
    let error = doc! { "index": 0, "code": 121, "errmsg": "invalid" };
    let refused = doc! { "writeErrors": [error], "n": 0 };
    let Err(DecodeError::Write { outcome, .. }) = renew.decode(&refused, SENT) else { panic!() };
    assert!(outcome.maybe_applied);
}
