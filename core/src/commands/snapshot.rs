//! The lease document as replies show it.

use chrono::Utc;

use super::*;
use crate::info::LeaseHolder;

/// The server's time of the command.
const NOW: &str = "now";
const WAITING: &str = "waiting";

/// A lease document, as far as it is understood. A field of a foreign type is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseSnapshot {
    /// The lease as users see it.
    pub info: LeaseInfo,
    /// The holder's ttl in milliseconds, if the grant describes the current holder.
    pub ttl_ms: Option<i64>,
    /// The echo of the holder's clock, if the grant describes the current holder.
    pub sent: Option<i64>,
    /// The time that the server's clock showed, in milliseconds.
    pub server_ms: Option<i64>,
}

/// The projection that [`read`] decodes.
pub fn projection() -> Document {
    with(projection_without_queue(), WAITING, doc! { "$size": queue::entries() })
}

/// The same without the length of the queue.
///
/// The server parses the projection with each command. Expressions cost it more than fields, and seven paths into
/// `grant` more than the whole field. So the only expression is the server's time, with which the reader compares the
/// expiry. The price: where another program has written something large to these fields, the reply carries it.
pub fn projection_without_queue() -> Document {
    doc! {
        "_id": 0,
        format::NAME: 1,
        format::VALUE: 1,
        format::EXPIRES_AT: 1,
        format::GRANT: 1,
        NOW: "$$NOW",
    }
}

/// Decodes a document that was projected by [`projection`].
pub fn read(document: &Document) -> LeaseSnapshot {
    let value = text(document, format::VALUE);
    // Another program changes `value` and leaves the other fields: then the grant describes a former holder.
    let is_current = |grant: &&Document| value.is_some() && text(grant, grant::VALUE) == value;
    let no_grant = Document::new();
    let grant = document.get_document(format::GRANT).ok().filter(is_current).unwrap_or(&no_grant);
    let millis = |field| document.get_datetime(field).ok().map(|at| at.timestamp_millis());
    let (expires_at, now) = (millis(format::EXPIRES_AT), millis(NOW));
    let name = text(document, format::NAME).unwrap_or_default();
    let info = LeaseInfo {
        owner: text(grant, grant::OWNER),
        acquired_at: date(grant, grant::ACQUIRED_AT),
        waiting: document.get_i32(WAITING).ok().and_then(|it| it.try_into().ok()).unwrap_or(0),
        metadata: grant.get_document(grant::METADATA).cloned().unwrap_or_default(),
        grant_id: grant.get_str(grant::ID).ok().map(GrantId::from),
        ..LeaseInfo::without_grant(name, value, state(document), expires_at, now)
    };
    LeaseSnapshot {
        info,
        ttl_ms: grant.get_i64(grant::TTL_MS).ok(),
        sent: grant.get_i64(grant::SENT_MICROS).ok(),
        server_ms: now,
    }
}

/// The same, with the holders. Only readers for users ask for them: there may be a thousand.
pub fn projection_with_holders() -> Document {
    with(projection(), format::HOLDERS, 1)
}

/// Decodes a document that was projected by [`projection_with_holders`].
pub fn read_with_holders(document: &Document) -> LeaseSnapshot {
    let mut seen = read(document);
    if seen.info.shared {
        seen.info.set_holders(holders(document).unwrap_or_default());
    }
    seen
}

/// The holders that have not expired. `None` if the list is corrupt: then the server admits nobody beside it.
fn holders(document: &Document) -> Option<Vec<LeaseHolder>> {
    let now = document.get_datetime(NOW).ok()?.timestamp_millis();
    document.get_datetime(format::EXPIRES_AT).ok()?;
    let elements = document.get_array(format::HOLDERS).ok()?.iter();
    let all = elements.map(|element| holder(element.as_document()?, now));
    let all: Vec<(i64, LeaseHolder)> = all.collect::<Option<_>>()?;
    let unexpired = all.into_iter().filter(|(expires_at, _)| *expires_at > now);
    Some(unexpired.map(|(_, holder)| holder).collect())
}

/// One holder, and when it expires. `None` if the server would not count it as one.
fn holder(element: &Document, now: i64) -> Option<(i64, LeaseHolder)> {
    let number = |field| element.get_i64(field).ok();
    let grant_id = element.get_str(holder::ID).ok().map(GrantId::from)?;
    number(holder::TTL_MS)?;
    number(holder::MAX_CLOCK_SKEW_MS)?;
    let permits = number(holder::PERMITS).filter(|permits| *permits >= 1)?;
    let expires_at = element.get_datetime(holder::EXPIRES_AT).ok()?.timestamp_millis();
    let (value, limit) = (text(element, holder::VALUE)?, number(holder::LIMIT)?);
    let shown = LeaseHolder {
        owner: text(element, holder::OWNER),
        acquired_at: date(element, holder::ACQUIRED_AT),
        metadata: element.get_document(holder::METADATA).cloned().unwrap_or_default(),
        grant_id: Some(grant_id),
        ..LeaseHolder::without_grant(value, small(permits), small(limit), expires_at, now)
    };
    Some((expires_at, shown))
}

/// A number of permits. Ours are small; another program's may be anything.
pub fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// The state of the lease. One that cannot be understood counts as held.
fn state(document: &Document) -> LeaseState {
    match (document.get_datetime(NOW), document.get(format::EXPIRES_AT)) {
        // No reply to this projection is without it.
        (Err(_), _) => LeaseState::Damaged { found: "unknown".to_owned() },
        (Ok(_), None | Some(Bson::Null)) => LeaseState::Free,
        (Ok(now), Some(Bson::DateTime(at))) if at <= now => LeaseState::Free,
        (Ok(_), Some(Bson::DateTime(_))) => LeaseState::Held,
        (Ok(_), Some(other)) => LeaseState::Damaged { found: type_name(other).to_owned() },
    }
}

/// The server's name of this type, as `$type` has it.
const fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Symbol(_) => "symbol",
        Bson::Decimal128(_) => "decimal",
        Bson::Undefined => "undefined",
        Bson::MaxKey => "maxKey",
        Bson::MinKey => "minKey",
        Bson::DbPointer(_) => "dbPointer",
    }
}

pub(super) fn date(document: &Document, field: &str) -> Option<chrono::DateTime<Utc>> {
    let millis = document.get_datetime(field).ok()?.timestamp_millis();
    chrono::DateTime::from_timestamp_millis(millis)
}
