//! The answer that each decoder has to give. Written from the types in the document alone, not from the decoders.
//! `Tombstone` and `IsHintUsed` are held to one direction: neither may claim more than the document shows.

use std::fmt;
use std::time::Duration;

use crate::bson::{Bson, Document, Timestamp, doc};
use crate::rules::ids::GrantId;
use crate::spec::EndScope;

use super::super::reading::integer;
use super::super::{
    SENT, TOKEN, beat, guard, held, in_line, renewed, resume, target, tick, values, with,
};
use super::{Decoder, batches, counts, decoder, lease_replies, leases, replied};
use crate::commands::find::{FindApplied, FindGrants, FindLeases};
use crate::commands::heartbeat::QueueEntry;
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping};
use crate::commands::release::{Delete, End, EndLater, GrantMatch, ReleaseTarget, Tombstone};
use crate::commands::renew::RenewMany;
use crate::commands::renew_holders::RenewHolders;
use crate::commands::reply::{self, Ended, Matched};
use crate::commands::snapshot::{self, LeaseSnapshot};
use crate::commands::{Command, DecodeError};

pub(super) const DECODERS: [Decoder; 21] = [
    decoder("find::FindApplied", batches, |reply| looked(&FindApplied(look()), reply)),
    decoder("find::FindGrants", batches, |reply| looked(&FindGrants(look()), reply)),
    decoder("find::FindLeases", batches, |reply| looked(&look(), reply)),
    decoder("heartbeat::FindEntries", batches, entries),
    decoder("heartbeat::Heartbeat", counts, |reply| matched(beat().decode(reply, SENT), reply)),
    decoder("probe::DryRun", dry_runs, dry_run),
    decoder("probe::Hello", hellos, hello),
    decoder("probe::IsHintUsed", plans, is_hint_used),
    decoder("probe::Ping", hellos, |reply| Ping.decode(reply, SENT).is_ok()),
    decoder("release::Delete", counts, |reply| {
        ended(Delete { targets: targets() }.decode(reply, SENT), reply)
    }),
    decoder("release::End", counts, |reply| {
        let end = End { targets: targets(), scope: EndScope::Anywhere, values: values() };
        ended(end.decode(reply, SENT), reply)
    }),
    decoder("release::EndLater", counts, |reply| {
        let target = target(GrantMatch::Any);
        let later = EndLater { target, hold_at_least: Duration::ZERO, values: values() };
        counted(later.decode(reply, SENT), reply, |count| count > 0)
    }),
    decoder("release::Tombstone", counts, tombstone),
    decoder("renew::RenewMany", counts, |reply| {
        matched(RenewMany { grants: vec![renewed()] }.decode(reply, SENT), reply)
    }),
    decoder("renew::Resume", resumes, resumed),
    decoder("renew::StandaloneToken", ticks, ticked),
    decoder("renew::decode", counts, |reply| matched(guard().decode(reply, SENT), reply)),
    decoder("renew_holders::RenewHolders", counts, |reply| {
        matched(RenewHolders { grants: vec![renewed()] }.decode(reply, SENT), reply)
    }),
    decoder("reply::token", counts, token),
    decoder("reply::write_concern_error", counts, write_concern),
    decoder("snapshot::read", leases, seen),
];

/// The document in a reply. Fails if a reply without one is answered.
pub(super) fn shown<'a, T: fmt::Debug>(
    reply: &'a Document,
    answer: &Result<T, DecodeError>,
) -> Option<&'a Document> {
    let document = reply.get("value").and_then(Bson::as_document);
    let is_unreadable = matches!(answer, Err(DecodeError::Reply(_)));
    assert!(document.is_some() || is_unreadable, "{answer:?}");
    document
}

/// The value at the end of the path, if each step leads into a document.
pub(super) fn at<'a>(document: &'a Document, path: &[&str]) -> Option<&'a Bson> {
    let (last, steps) = path.split_last()?;
    let step = |document: &'a Document, step: &&str| document.get(step)?.as_document();
    steps.iter().try_fold(document, step)?.get(last)
}

pub(super) fn text<'a>(document: &'a Document, path: &[&str]) -> Option<&'a str> {
    at(document, path)?.as_str()
}

pub(super) fn time(document: &Document, path: &[&str]) -> Option<Timestamp> {
    at(document, path)?.as_timestamp()
}

/// The date that users see there.
pub(super) fn date(document: &Document, path: &[&str]) -> Option<chrono::DateTime<chrono::Utc>> {
    let date = at(document, path)?.as_datetime()?;
    chrono::DateTime::from_timestamp_millis(date.timestamp_millis())
}

/// Fails unless these are the metadata in this grant or holder. Compares texts: a NaN does not equal itself.
pub(super) fn assert_metadata(shown: &Document, of: &Document) {
    let wanted = of.get_document("metadata").cloned().unwrap_or_default();
    assert_eq!(format!("{shown:?}"), format!("{wanted:?}"));
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
    let errors = reply.get("writeErrors").and_then(Bson::as_array);
    number_of(reply).filter(|_| errors.is_none_or(Vec::is_empty))
}

/// The count in any reply.
pub(super) fn number_of(reply: &Document) -> Option<i64> {
    integer(reply.get("n")?)
}

pub(super) fn rows(reply: &Document) -> Option<Vec<&Document>> {
    let rows = at(reply, &["cursor", "firstBatch"])?.as_array()?;
    Some(rows.iter().filter_map(Bson::as_document).collect())
}

fn look() -> FindLeases {
    FindLeases { names: vec![], after: None }
}

fn targets() -> Vec<ReleaseTarget> {
    vec![target(GrantMatch::Any)]
}

/// Fails unless this is what the command makes of the count: of matches, and not of changes, for two heartbeats within
/// one millisecond change nothing.
fn counted<T: fmt::Debug + PartialEq>(
    decoded: Result<T, DecodeError>,
    reply: &Document,
    wanted: impl Fn(i64) -> T,
) -> bool {
    match (decoded, number(reply)) {
        (Ok(decoded), Some(count)) => {
            assert_eq!(decoded, wanted(count));
            true
        }
        (Err(DecodeError::Reply(_) | DecodeError::Write { .. }), None) => false,
        (decoded, count) => panic!("{decoded:?} by a count of {count:?}"),
    }
}

fn matched(decoded: Result<Matched, DecodeError>, reply: &Document) -> bool {
    counted(decoded, reply, |matched| Matched { sent: SENT, matched })
}

fn ended(decoded: Result<Ended, DecodeError>, reply: &Document) -> bool {
    counted(decoded, reply, |count| Ended { count, at: time(reply, &["operationTime"]) })
}

fn tombstone(reply: &Document) -> bool {
    let decoded = Tombstone { targets: targets(), values: values() }.decode(reply, SENT);
    let Ok(Some((places, _))) = decoded.as_ref().map(|decoded| &decoded.refused) else {
        return ended(decoded.map(|decoded| decoded.ended), reply);
    };
    // Its one statement was refused for good.
    assert_eq!((places.as_slice(), number(reply)), ([0].as_slice(), None));
    assert_eq!(decoded.ok().map(|decoded| decoded.ended.count), number_of(reply));
    false
}

/// Fails unless the decoder reads this from the document in the reply, and nothing where there is no document.
fn read<T: fmt::Debug + PartialEq>(
    decoded: Result<Option<T>, DecodeError>,
    reply: &Document,
    wanted: Option<T>,
) -> bool {
    let has_document = matches!(reply.get("value"), Some(Bson::Document(_)));
    match decoded {
        Ok(found) => assert_eq!((found.is_some(), &found), (has_document, &wanted)),
        Err(DecodeError::Reply(_)) if has_document && wanted.is_none() => {}
        Err(cause) => panic!("{cause:?}, and not {wanted:?}"),
    }
    wanted.is_some()
}

/// Also the lease as the resume leaves it: under a fresh id. The others show that of the key.
fn resumes() -> Vec<Document> {
    let fresh = replied(super::super::found(held("$$NOW", "$call.2")));
    lease_replies().into_iter().chain([fresh]).collect()
}

fn resumed(reply: &Document) -> bool {
    let decoded = resume("$call.2").decode(reply, SENT);
    let decoded = decoded.map(|it| it.map(|(sent, seen)| (sent, seen.info.value, seen.ttl_ms)));
    let shows = |path: &[&str], wanted| text(reply, path) == Some(wanted);
    let is_ours =
        shows(&["value", "value"], "$$NOW") && shows(&["value", "grant", "id"], "$call.2");
    // Without the ttl that was written, the holder would rely on another.
    let ttl = at(reply, &["value", "grant", "ttlMs"]).and_then(Bson::as_i64).filter(|_| is_ours);
    read(decoded, reply, ttl.map(|ttl| (SENT, Some("$$NOW".to_owned()), Some(ttl))))
}

fn ticked(reply: &Document) -> bool {
    let token = time(reply, &["value", "grant", "standaloneToken"]);
    read(tick().decode(reply, SENT), reply, token)
}

fn seen(document: &Document) -> bool {
    let seen = snapshot::read(document);
    assert_eq!(seen.info.value.as_deref(), text(document, &["value"]));
    let speaks = seen.info.value.is_some()
        && text(document, &["grant", "value"]) == seen.info.value.as_deref();
    let of_grant = |field| text(document, &["grant", field]).filter(|_| speaks);
    assert_eq!(seen.info.grant_id.as_ref().map(GrantId::as_str), of_grant("id"));
    assert_eq!(seen.info.owner.as_deref(), of_grant("owner"));
    let number = |field| at(document, &["grant", field]).and_then(Bson::as_i64).filter(|_| speaks);
    assert_eq!((seen.ttl_ms, seen.sent), (number("ttlMs"), number("sentMicros")));
    let grant = document.get_document("grant").ok().filter(|_| speaks);
    assert_eq!(seen.info.acquired_at, grant.and_then(|it| date(it, &["acquiredAt"])));
    assert_metadata(&seen.info.metadata, grant.unwrap_or(&Document::new()));
    assert_eq!(seen.info.expires_at, date(document, &["expiresAt"]));
    let waiting = document.get("waiting").and_then(Bson::as_i32);
    let waiting = waiting.and_then(|it| u32::try_from(it).ok());
    assert_eq!(seen.info.waiting, waiting.unwrap_or(0));
    // Every snapshot can be displayed.
    assert!(!format!("{} {:?}", seen.info, seen.info).is_empty());
    // A free lease shows that it is free; everything else counts as held.
    assert_eq!(seen.info.is_held(), is_held(document) != Some(false), "{document}");
    speaks
}

fn token(reply: &Document) -> bool {
    let token = reply::token(reply).ok();
    assert_eq!(token, time(reply, &["operationTime"]));
    token.is_some()
}

/// Fails unless the decoder finds what is to be found in the rows of the batch, or none for want of a batch.
fn looked<C: Command<Reply = Vec<LeaseSnapshot>>>(command: &C, reply: &Document) -> bool {
    let rows = rows(reply);
    let wanted = rows.map(|rows| rows.into_iter().map(snapshot::read).collect());
    found(command.decode(reply, SENT), wanted)
}

fn entries(reply: &Document) -> bool {
    let in_row = |row: &Document| {
        let name = text(row, &["name"])?.to_owned();
        let values = row.get("ours")?.as_array()?.iter().filter_map(Bson::as_str);
        let entry = |value: &str| QueueEntry { name: name.clone(), value: value.to_owned() };
        Some(values.map(entry).collect::<Vec<_>>())
    };
    let wanted = rows(reply).map(|rows| rows.into_iter().filter_map(in_row).flatten().collect());
    found(in_line().decode(reply, SENT), wanted)
}

/// It compares texts: a NaN in a user's metadata does not equal itself.
fn found<T: fmt::Debug>(decoded: Result<Vec<T>, DecodeError>, wanted: Option<Vec<T>>) -> bool {
    match (decoded, wanted) {
        (Ok(found), Some(wanted)) => {
            assert_eq!(format!("{found:?}"), format!("{wanted:?}"));
            !found.is_empty()
        }
        (Err(DecodeError::Reply(_)), None) => false,
        (decoded, wanted) => panic!("{decoded:?}, and not {wanted:?}"),
    }
}

fn hello(reply: &Document) -> bool {
    let is_new = matches!(reply.get("maxWireVersion"), Some(Bson::Int32(9..)));
    let has_oplog = reply.contains_key("setName") || text(reply, &["msg"]) == Some("isdbgrid");
    // Without an operation time there are no tokens.
    let is_fine = is_new && (!has_oplog || time(reply, &["operationTime"]).is_some());
    match Hello.decode(reply, SENT) {
        Ok(topology) => {
            assert_eq!((is_fine, topology.has_oplog), (true, has_oplog));
            assert_eq!(topology.is_router, text(reply, &["msg"]) == Some("isdbgrid"));
            let now = reply.get_datetime("localTime").ok().map(|now| now.timestamp_millis());
            assert_eq!(topology.now_ms, now);
        }
        Err(cause) => {
            assert!(!is_fine && matches!(cause, DecodeError::Unsupported(_)), "{cause:?}")
        }
    }
    is_fine
}

fn is_hint_used(reply: &Document) -> bool {
    let is_used = IsHintUsed.decode(reply, SENT).unwrap();
    let plan = at(reply, &["queryPlanner", "winningPlan"]).map(Bson::to_string);
    let words = ["\"IXSCAN\"", "\"keyPattern\": {", "\"name\""];
    let plan = plan.unwrap_or_default().replace("\":{", "\": {");
    assert!(!is_used || words.iter().all(|word| plan.contains(word)), "{plan}");
    is_used
}

fn dry_run(reply: &Document) -> bool {
    let is_fine = DryRun.decode(reply, SENT).is_ok();
    assert_eq!(is_fine, matches!(reply.get("value"), None | Some(Bson::Null)));
    is_fine
}

fn write_concern(reply: &Document) -> bool {
    let error = reply::write_concern_error(reply);
    assert_eq!(error.is_some(), reply.contains_key("writeConcernError"));
    let has_matched = reply.get_i32("n").ok() != Some(0);
    assert!(error.as_ref().is_none_or(|(_, outcome)| outcome.maybe_applied == has_matched));
    error.is_some()
}

/// The answers of MongoDB 6.0, without a router and behind one.
fn plans() -> Vec<Document> {
    let scan = doc! { "stage": "IXSCAN", "keyPattern": { "name": 1 }, "indexName": "name_1" };
    let plan = doc! { "stage": "FETCH", "inputStage": scan };
    let shards = doc! { "stage": "SINGLE_SHARD", "shards": [{ "winningPlan": plan.clone() }] };
    let other = doc! { "stage": "IXSCAN", "keyPattern": { "expiresAt": 1 } };
    [plan, shards, doc! { "stage": "EOF" }, doc! { "stage": "FETCH", "inputStage": other }]
        .map(|plan| doc! { "queryPlanner": { "winningPlan": plan }, "ok": 1.0 })
        .to_vec()
}

fn dry_runs() -> Vec<Document> {
    let nothing = doc! { "lastErrorObject": { "n": 0 }, "value": Bson::Null };
    vec![replied(nothing), lease_replies().remove(1)]
}

fn ticks() -> Vec<Document> {
    vec![
        replied(doc! { "value": { "grant": { "standaloneToken": TOKEN } } }),
        replied(doc! { "value": Bson::Null }),
    ]
}

fn hellos() -> Vec<Document> {
    let standalone = doc! { "isWritablePrimary": true, "maxWireVersion": 17 };
    let member = with(standalone.clone(), "setName", "rs");
    let router = with(standalone.clone(), "msg", "isdbgrid");
    vec![standalone, replied(member), replied(router)]
}
