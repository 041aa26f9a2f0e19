//! The lease document as replies show it.

use chrono::{DateTime, Utc};
use mongodb::bson::{Bson, Document, doc};

use super::{grant_field, is_date, path, queue};
use crate::info::{LeaseInfo, LeaseState};
use crate::rules::ids::GrantId;
use crate::rules::time::from_millis;
use crate::schema::{self, grant};

const EXPIRES_TYPE: &str = "expiresType";
const REMAINING_MS: &str = "remainingMs";
const WAITING: &str = "waiting";

/// A lease document, as far as it is understood. A field of a foreign type is absent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseSnapshot {
    pub(crate) info: LeaseInfo,
    /// The id of the grant, if the grant describes the current holder.
    pub(crate) grant_id: Option<GrantId>,
    /// The holder's ttl in milliseconds, if the grant describes the current holder.
    pub(crate) ttl_ms: Option<i64>,
    /// The echo of the holder's clock, if the grant describes the current holder.
    pub(crate) sent: Option<i64>,
}

/// The projection that [`read`] decodes.
///
/// It contains only the needed fields, because another program's document may hold anything. `$subtract` comes after a
/// check of the type, because it fails on a non-date. It also comes after a comparison, because it overflows on a date
/// long enough ago, which would read as "held for ever".
pub(crate) fn projection() -> Document {
    let type_of = doc! { "$type": path(schema::EXPIRES_AT) };
    let date = |value: Bson| doc! { "$cond": [is_date(schema::EXPIRES_AT), value, Bson::Null] };
    let expires_at = path(schema::EXPIRES_AT);
    let left = doc! { "$subtract": [&expires_at, "$$NOW"] };
    let remaining = doc! { "$cond": [{ "$lte": [&expires_at, "$$NOW"] }, Bson::Int64(0), left] };
    let mut projection = doc! {
        "_id": 0,
        schema::NAME: 1,
        schema::VALUE: 1,
        EXPIRES_TYPE: type_of,
        schema::EXPIRES_AT: date(path(schema::EXPIRES_AT).into()),
        REMAINING_MS: date(remaining.into()),
        WAITING: queue::length(),
    };
    for field in [
        grant::VALUE,
        grant::ID,
        grant::SENT,
        grant::OWNER,
        grant::ACQUIRED_AT,
        grant::TTL_MS,
        grant::META,
    ] {
        projection.insert(grant_field(field), 1);
    }
    projection
}

/// Decodes a document that was projected by [`projection`].
pub(crate) fn read(document: &Document) -> LeaseSnapshot {
    let value = text(document, schema::VALUE);
    // Another program changes `value` and leaves the other fields: then the grant describes a former holder.
    let grant = document
        .get_document(schema::GRANT)
        .ok()
        .filter(|grant| value.is_some() && text(grant, grant::VALUE) == value);
    let remaining_ms = document.get_i64(REMAINING_MS).ok();
    let info = LeaseInfo {
        name: text(document, schema::NAME).unwrap_or_default(),
        state: state(document, remaining_ms),
        owner: grant.and_then(|grant| text(grant, grant::OWNER)),
        acquired_at: grant.and_then(|grant| date(grant, grant::ACQUIRED_AT)),
        expires_at: date(document, schema::EXPIRES_AT),
        remaining: remaining_ms.map(from_millis),
        waiting: document.get_i32(WAITING).ok().and_then(|it| it.try_into().ok()).unwrap_or(0),
        metadata: grant
            .and_then(|grant| grant.get_document(grant::META).ok())
            .cloned()
            .unwrap_or_default(),
        value,
        // Set by the manager that reads the document.
        held_here: false,
    };
    LeaseSnapshot {
        info,
        grant_id: grant.and_then(|grant| grant.get_str(grant::ID).ok()).map(GrantId::from),
        ttl_ms: grant.and_then(|grant| grant.get_i64(grant::TTL_MS).ok()),
        sent: grant.and_then(|grant| grant.get_i64(grant::SENT).ok()),
    }
}

fn state(document: &Document, remaining_ms: Option<i64>) -> LeaseState {
    match document.get_str(EXPIRES_TYPE) {
        Ok("missing" | "null") => LeaseState::Free,
        Ok("date") if remaining_ms.is_some_and(|left| left <= 0) => LeaseState::Free,
        Ok("date") => LeaseState::Held,
        Ok(other) => LeaseState::Damaged { found: other.to_owned() },
        Err(_) => LeaseState::Damaged { found: "field without a type".to_owned() },
    }
}

fn text(document: &Document, field: &str) -> Option<String> {
    document.get_str(field).ok().map(str::to_owned)
}

fn date(document: &Document, field: &str) -> Option<DateTime<Utc>> {
    let millis = document.get_datetime(field).ok()?.timestamp_millis();
    DateTime::from_timestamp_millis(millis)
}
