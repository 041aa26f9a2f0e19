//! Which answers a first attempt may accept as a grant, alone or in a batch. Written from the types in the documents
//! alone.

use std::collections::HashSet;
use std::sync::Arc;

use crate::bson::{Bson, Document, Timestamp};
use crate::rules::guesses::FastForm;
use mongo_lease_testbed::Seed;

use super::super::{SENT, joining, request, take as take_command};
use super::checks::{is_held, number_of, rows, text, time};
use super::{TIME, arbitrary, batches, lease_replies, runner, shown};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, AcquireRequest};
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAcquired, who_was_granted};
use crate::commands::find::FindLeases;

/// A call that does not wait, one that does, and one on a server without an oplog.
fn acquires() -> [FastAcquire; 3] {
    let without_oplog = Arc::new(AcquireRequest { has_oplog: false, ..request() });
    let waiting = FastAcquire {
        request: joining().request,
        attempt_no: 3,
        form: FastForm::LookUp,
        resends: 0,
        first_sent: None,
    };
    [
        take_command(),
        waiting,
        FastAcquire {
            request: without_oplog,
            attempt_no: 3,
            form: FastForm::LookUp,
            resends: 0,
            first_sent: None,
        },
    ]
}

/// The same replies, plus replies with grants to another attempt of the same call.
fn with_other_attempts(replies: Vec<Document>) -> Vec<Document> {
    fn renumber(value: &mut Bson) {
        if let Bson::Document(document) = value {
            document.iter_mut().for_each(|(_, inner)| renumber(inner));
        } else if let Bson::Array(items) = value {
            items.iter_mut().for_each(renumber);
        } else if value.as_str() == Some("$call.3") {
            *value = "$call.2".into();
        }
    }
    let mut others: Vec<_> = replies.iter().cloned().map(Bson::Document).collect();
    others.iter_mut().for_each(renumber);
    let others = others.iter().filter_map(Bson::as_document).cloned();
    replies.iter().cloned().chain(others).collect()
}

pub(super) fn take_replies() -> Vec<Document> {
    with_other_attempts(lease_replies())
}

/// Whether a document shows that this very attempt has the lease: by the value, and by the grant.
fn is_own(document: &Document) -> bool {
    let has = |path: &[&str], wanted: &str| text(document, path) == Some(wanted);
    has(&["value"], "$$NOW")
        && has(&["grant", "value"], "$$NOW")
        && has(&["grant", "id"], "$call.3")
}

/// Fails if the answer claims more than the document shows. Returns whether it is a grant.
fn judged(
    take: &FastAcquire,
    reply: &AcquireReply,
    document: &Document,
    token: Option<Timestamp>,
) -> bool {
    let is_sound = is_held(document).is_some();
    match reply {
        AcquireReply::Granted(granted) => {
            assert!(is_own(document) && is_sound, "{document}");
            assert_eq!(granted.grant_id.as_str(), "$call.3");
            // Whatever the document says.
            assert_eq!(granted.sent, SENT);
            assert_eq!(granted.token, token);
            true
        }
        AcquireReply::Refused(refused) => {
            assert!(take.request.joins.is_none() && is_held(document) == Some(true), "{document}");
            assert_ne!(text(document, &["value"]), Some("$$NOW"));
            assert_eq!(refused.info.value.as_deref(), text(document, &["value"]));
            assert_eq!((refused.sent, refused.ahead, refused.at), (SENT, None, token));
            assert_eq!(refused.info.name, "$name");
            false
        }
        // A grant that may be ours is never lost.
        AcquireReply::UseSlowForm { maybe_granted } => {
            assert_eq!(*maybe_granted, is_own(document), "{document}");
            assert!(!is_sound || !is_own(document), "it was granted: {document}");
            false
        }
    }
}

pub(super) fn take(reply: &Document) -> bool {
    let mut believed = false;
    for take in acquires() {
        let decoded = take.decode(reply, SENT);
        let Some(document) = shown(reply, &decoded) else { continue };
        let token = time(reply, &["operationTime"]).filter(|_| take.request.has_oplog);
        match decoded {
            Ok(reply) => {
                assert_eq!(token.is_some(), take.request.has_oplog);
                believed |= judged(&take, &reply, document, token);
            }
            Err(cause) => {
                assert!(matches!(cause, DecodeError::Unsupported(_)), "{cause:?}");
                assert!(take.request.has_oplog && token.is_none());
            }
        }
    }
    believed
}

pub(super) fn take_many(reply: &Document) -> bool {
    let many = FastAcquireMany { acquires: acquires().to_vec() };
    let errors = match reply.get("writeErrors") {
        Some(Bson::Array(errors)) => errors.as_slice(),
        Some(_) | None => &[],
    };
    let place = |error: &Bson| {
        let Some(Bson::Int32(place)) = error.as_document()?.get("index") else { return None };
        usize::try_from(*place).ok()
    };
    let places: Option<HashSet<usize>> = errors.iter().map(place).collect();
    let at = time(reply, &["operationTime"]);
    match many.decode(reply, SENT) {
        Ok(taken) => {
            assert!(number_of(reply).is_some(), "{reply}");
            assert_eq!((taken.sent, Some(taken.at), Some(taken.refused)), (SENT, at, places));
            true
        }
        Err(cause) => {
            let is_whole = number_of(reply).is_some() && at.is_some() && places.is_some();
            assert!(!is_whole, "{cause:?}: {reply}");
            false
        }
    }
}

/// An answer is a grant only if the document under the call's own name has the call's value and its own grant id. Its
/// token is the command's time, whatever the document contains.
#[test]
fn what_a_look_finds_is_a_grant_where_it_says_so_itself() {
    let found = proptest::prelude::prop_oneof![
        1 => arbitrary::any_document(),
        4 => arbitrary::damaged(with_other_attempts(batches())),
    ];
    let granted = std::cell::Cell::new((0, 0));
    let seed = Seed::fixed("what stands behind a batch", 1);
    let outcome = runner(&seed).run(&found, |reply| {
        let look = FindLeases { names: vec!["$name".to_owned()], after: Some(TIME) };
        let Ok(seen) = look.decode(&reply, SENT) else { return Ok(()) };
        // Only the last row with this name counts; the unique index allows only one.
        let rows = rows(&reply).expect("rows");
        let named = |row: &&Document| text(row, &["name"]) == Some("$name");
        let document = rows.into_iter().rfind(named);
        let [once, waiting, _] = acquires();
        let acquires = [once, waiting];
        let at = Timestamp { time: 7, increment: 7 };
        let taken = FastAcquired { sent: SENT, at, refused: HashSet::from([1]) };
        let replies = who_was_granted(&acquires, &taken, seen);
        assert_eq!(replies.len(), 2);
        for (place, (take, reply)) in std::iter::zip(&acquires, &replies).enumerate() {
            let (yes, no) = granted.get();
            let is_granted = match (document, reply) {
                (Some(document), reply) => judged(take, reply, document, Some(at)),
                (None, AcquireReply::UseSlowForm { maybe_granted }) => {
                    assert_eq!(*maybe_granted, place == 0);
                    false
                }
                (None, other) => panic!("{other:?} by nothing"),
            };
            granted.set(if is_granted { (yes + 1, no) } else { (yes, no + 1) });
        }
        Ok(())
    });
    outcome.unwrap();
    let (yes, no) = granted.get();
    assert!(yes > 0 && no > 0, "granted {yes}, not granted {no}");
}
