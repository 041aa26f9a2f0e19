//! Which answers each decoder may give. Written from the types in the document alone, not from the decoders.

use crate::bson::{Bson, Document, Timestamp};
use crate::rules::ids::GrantId;
use crate::spec::EndScope;

use super::super::{
    SENT, acquire as refusing, beat as beat_command, in_line as in_line_command, request,
};
use super::super::{joining, renewed, target, tick as tick_command, values};
use super::shown;
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, SlowAcquire};
use crate::commands::find::{FindGrants, FindLeases};
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping};
use crate::commands::release::{Delete, End, EndLater, GrantMatch, Tombstone, Tombstoned};
use crate::commands::renew::RenewMany;
use crate::commands::reply::Matched;
use crate::commands::{reply, snapshot};

/// The value at the end of the path, if each step leads into a document.
pub(super) fn at<'a>(document: &'a Document, path: &[&str]) -> Option<&'a Bson> {
    let (last, steps) = path.split_last()?;
    let mut inner = document;
    for step in steps {
        let Some(Bson::Document(next)) = inner.get(step) else { return None };
        inner = next;
    }
    inner.get(last)
}

pub(super) fn text<'a>(document: &'a Document, path: &[&str]) -> Option<&'a str> {
    match at(document, path) {
        Some(Bson::String(text)) => Some(text),
        Some(_) | None => None,
    }
}

pub(super) fn time(document: &Document, path: &[&str]) -> Option<Timestamp> {
    match at(document, path) {
        Some(Bson::Timestamp(time)) => {
            Some(Timestamp { time: time.time, increment: time.increment })
        }
        Some(_) | None => None,
    }
}

/// Whether a document shows that the lease is held. `None`: it does not tell.
pub(super) fn is_held(document: &Document) -> Option<bool> {
    let Some(Bson::DateTime(now)) = document.get("now") else { return None };
    match document.get("expiresAt") {
        None | Some(Bson::Null) => Some(false),
        Some(Bson::DateTime(at)) => Some(at.timestamp_millis() > now.timestamp_millis()),
        Some(_) => None,
    }
}

/// The count in a reply in which nothing went wrong.
fn number(reply: &Document) -> Option<i64> {
    if matches!(reply.get("writeErrors"), Some(Bson::Array(errors)) if !errors.is_empty()) {
        return None;
    }
    number_of(reply)
}

/// The count in any reply.
pub(super) fn number_of(reply: &Document) -> Option<i64> {
    match reply.get("n") {
        Some(Bson::Int32(number)) => Some(i64::from(*number)),
        Some(Bson::Int64(number)) => Some(*number),
        Some(_) | None => None,
    }
}

pub(super) fn rows(reply: &Document) -> Option<Vec<&Document>> {
    let Some(Bson::Array(rows)) = at(reply, &["cursor", "firstBatch"]) else { return None };
    Some(rows.iter().filter_map(Bson::as_document).collect())
}

pub(super) fn acquire(reply: &Document) -> bool {
    let without_oplog = std::sync::Arc::new(crate::commands::acquire::AcquireRequest {
        has_oplog: false,
        ..request()
    });
    let later = SlowAcquire { request: without_oplog, attempt_no: 1, predecessor: None };
    let successor = SlowAcquire { predecessor: Some("another".to_owned()), ..joining() };
    let believed =
        [refusing(), joining(), successor, later].map(|acquire| granted(&acquire, reply));
    believed.contains(&true)
}

fn granted(acquire: &SlowAcquire, reply: &Document) -> bool {
    let answer = acquire.decode(reply, SENT);
    let Some(document) = shown(reply, &answer) else { return false };
    match answer {
        Ok(AcquireReply::Granted(granted)) => {
            assert_eq!(text(document, &["value"]), Some("$$NOW"));
            assert_eq!(text(document, &["grant", "value"]), Some("$$NOW"));
            assert_eq!(text(document, &["grant", "id"]), Some(granted.grant_id.as_str()));
            assert!(is_held(document).is_some(), "{document}");
            let token = time(reply, &["operationTime"]).filter(|_| acquire.request.has_oplog);
            assert_eq!((granted.sent, granted.token), (SENT, token));
            assert_eq!(granted.token.is_some(), acquire.request.has_oplog);
            true
        }
        Ok(AcquireReply::Refused(refused)) => {
            assert_eq!((refused.sent, refused.info.name.as_str()), (SENT, "$name"));
            assert_eq!(refused.at, time(reply, &["operationTime"]));
            false
        }
        Ok(AcquireReply::UseSlowForm { .. }) => unreachable!("the slow form can tell"),
        Err(cause) => {
            assert!(matches!(cause, DecodeError::Unsupported(_)), "{cause:?}");
            false
        }
    }
}

pub(super) fn counted(decoded: Result<Matched, DecodeError>, reply: &Document) -> bool {
    match decoded {
        Ok(Matched { sent, matched }) => {
            assert_eq!((sent, Some(matched)), (SENT, number(reply)));
            true
        }
        Err(cause) => {
            let is_of_the_reply =
                matches!(cause, DecodeError::Reply(_) | DecodeError::Write { .. });
            assert!(is_of_the_reply && number(reply).is_none(), "{cause:?}");
            false
        }
    }
}

pub(super) fn counted_leases(decoded: Result<i64, DecodeError>, reply: &Document) -> bool {
    counted(decoded.map(|matched| Matched { sent: SENT, matched }), reply)
}

pub(super) fn beat(reply: &Document) -> bool {
    counted(beat_command().decode(reply, SENT), reply)
}

pub(super) fn guard(reply: &Document) -> bool {
    counted(super::super::guard().decode(reply, SENT), reply)
}

pub(super) fn renew_many(reply: &Document) -> bool {
    let renew = RenewMany { grants: vec![renewed()] };
    counted(renew.decode(reply, SENT), reply)
}

pub(super) fn delete(reply: &Document) -> bool {
    let targets = vec![target(GrantMatch::Any)];
    let deleted = Delete { targets }.decode(reply, SENT);
    counted_leases(deleted.map(|deleted| deleted.count), reply)
}

pub(super) fn tombstone(reply: &Document) -> bool {
    let targets = vec![target(GrantMatch::Any)];
    let command = Tombstone { targets, values: values() };
    match command.decode(reply, SENT) {
        // Its one statement was refused for good.
        Ok(Tombstoned { refused: Some((places, _)), ended }) => {
            assert_eq!((places.as_slice(), Some(ended.count)), (&[0][..], number_of(reply)));
            assert_eq!(number(reply), None);
            false
        }
        Ok(Tombstoned { refused: None, ended }) => counted_leases(Ok(ended.count), reply),
        Err(cause) => {
            assert_eq!(number(reply), None, "{cause:?}");
            false
        }
    }
}

pub(super) fn end(reply: &Document) -> bool {
    let targets = vec![target(GrantMatch::Any)];
    let end = End { targets, scope: EndScope::Anywhere, values: values() };
    counted_leases(end.decode(reply, SENT).map(|ended| ended.count), reply)
}

pub(super) fn end_later(reply: &Document) -> bool {
    let hold_at_least = std::time::Duration::ZERO;
    let target = target(GrantMatch::Any);
    let later = EndLater { target, hold_at_least, values: values() };
    let was_held = later.decode(reply, SENT).ok();
    assert_eq!(was_held, number(reply).map(|number| number > 0));
    was_held == Some(true)
}

pub(super) fn resume(reply: &Document) -> bool {
    let resumed = super::super::resume("$call.3").decode(reply, SENT);
    let Ok(Some((sent, seen))) = resumed else { return false };
    assert_eq!(sent, SENT);
    assert!(seen.ttl_ms.is_some());
    assert_eq!(text(reply, &["value", "value"]), Some("$$NOW"));
    assert_eq!(text(reply, &["value", "grant", "id"]), Some("$call.3"));
    assert_eq!(seen.info.value.as_deref(), Some("$$NOW"));
    true
}

pub(super) fn seen(document: &Document) -> bool {
    let seen = snapshot::read(document);
    assert_eq!(seen.info.value.as_deref(), text(document, &["value"]));
    let speaks = seen.info.value.is_some()
        && text(document, &["grant", "value"]) == seen.info.value.as_deref();
    let of_grant = |field| text(document, &["grant", field]).filter(|_| speaks);
    assert_eq!(seen.grant_id.as_ref().map(GrantId::as_str), of_grant("id"));
    assert_eq!(seen.info.owner.as_deref(), of_grant("owner"));
    assert!(speaks || seen.ttl_ms.is_none() && seen.sent.is_none());
    assert!(speaks || seen.info.acquired_at.is_none() && seen.info.metadata.is_empty());
    // Every snapshot can be displayed.
    assert!(!format!("{} {:?}", seen.info, seen.info).is_empty());
    // A free lease shows that it is free; everything else counts as held.
    assert_eq!(seen.info.is_held(), is_held(document) != Some(false), "{document}");
    speaks
}

pub(super) fn tick(reply: &Document) -> bool {
    match tick_command().decode(reply, SENT) {
        Ok(Some(token)) => {
            assert_eq!(Some(token), time(reply, &["value", "grant", "standaloneToken"]));
            true
        }
        Ok(None) => {
            assert!(!matches!(reply.get("value"), Some(Bson::Document(_))));
            false
        }
        Err(_) => false,
    }
}

pub(super) fn token(reply: &Document) -> bool {
    let token = reply::token(reply).ok();
    assert_eq!(token, time(reply, &["operationTime"]));
    token.is_some()
}

pub(super) fn in_line(reply: &Document) -> bool {
    let Ok(places) = in_line_command().decode(reply, SENT) else { return false };
    let rows = rows(reply).expect("rows");
    for place in &places {
        let is_shown = |row: &&Document| {
            let ours = Bson::String(place.value.clone());
            let has =
                matches!(row.get("ours"), Some(Bson::Array(values)) if values.contains(&ours));
            has && text(row, &["name"]) == Some(&place.name)
        };
        assert!(rows.iter().any(is_shown), "{place:?}");
    }
    !places.is_empty()
}

fn looked<T>(decoded: Result<Vec<T>, DecodeError>, reply: &Document) -> bool {
    assert_eq!(decoded.ok().map(|found| found.len()), rows(reply).map(|rows| rows.len()));
    rows(reply).is_some()
}

pub(super) fn look(reply: &Document) -> bool {
    let look = FindLeases { names: vec![], after: None };
    looked(look.decode(reply, SENT), reply)
}

pub(super) fn look_behind(reply: &Document) -> bool {
    let look = FindLeases { names: vec![], after: None };
    looked(FindGrants(look).decode(reply, SENT), reply)
}

pub(super) fn hello(reply: &Document) -> bool {
    let Ok(topology) = Hello.decode(reply, SENT) else { return false };
    assert!(matches!(reply.get("maxWireVersion"), Some(Bson::Int32(9..))));
    let is_one = reply.contains_key("setName") || text(reply, &["msg"]) == Some("isdbgrid");
    assert_eq!(topology.has_oplog, is_one);
    // Without an operation time there are no tokens.
    assert!(!is_one || time(reply, &["operationTime"]).is_some());
    true
}

pub(super) fn is_hint_used(reply: &Document) -> bool {
    let is_used = IsHintUsed.decode(reply, SENT).unwrap();
    let plan = at(reply, &["queryPlanner", "winningPlan"]).map(Bson::to_string);
    let words = ["\"IXSCAN\"", "\"keyPattern\": {", "\"name\""];
    let plan = plan.unwrap_or_default().replace("\":{", "\": {");
    assert!(!is_used || words.iter().all(|word| plan.contains(word)), "{plan}");
    is_used
}

pub(super) fn dry_run(reply: &Document) -> bool {
    let is_fine = DryRun.decode(reply, SENT).is_ok();
    assert_eq!(is_fine, matches!(reply.get("value"), None | Some(Bson::Null)));
    is_fine
}

pub(super) fn ping(reply: &Document) -> bool {
    Ping.decode(reply, SENT).is_ok()
}

pub(super) fn write_concern(reply: &Document) -> bool {
    let error = reply::write_concern_error(reply);
    assert_eq!(error.is_some(), reply.contains_key("writeConcernError"));
    error.is_some()
}
