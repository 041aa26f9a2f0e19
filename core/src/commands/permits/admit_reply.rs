//! The reply to an admission: the lease, and the caller's own record.

use crate::bson::{Bson, Document, Timestamp, doc};
use crate::format::holder;
use crate::rules::ids::GrantId;
use crate::rules::permits::Permits;
use crate::rules::time::{Instant, from_millis};
use chrono::{DateTime, Utc};

use super::{ELEMENTS, elements, is_of, is_shared, with};
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, AcquireRequest, Granted, GrantedShare};
use crate::commands::snapshot::{self, LeaseSnapshot};
use crate::commands::{literal, queue};
use crate::info::LeaseInfo;

/// The fields of the reply: the caller's own record in shared use, the time until the first holder's expiry, the
/// permits in use, and the smallest limit. They count every holder in the document, also those that have just expired.
/// The reply to a fast grant lacks the time, and has the permits only of a call that holds the lease alone.
const SHARED: &str = "shared";
const OWN: &str = "own";
const FIRST_MS: &str = "firstMs";
const IN_USE: &str = "inUse";
const LIMIT: &str = "limit";
pub(super) const AHEAD: &str = "ahead";
/// Whether the queue has an element, live or dead.
pub(super) const HAS_QUEUE: &str = "hasQueue";

/// The variable that stands for the last holder.
const LAST: &str = "$$last";

/// The fields of that record in the reply.
const OWN_FIELDS: [&str; 4] = [holder::ID, holder::EXPIRES_AT, holder::PERMITS, holder::LIMIT];

pub(super) fn projection(value: &str) -> Document {
    with_shared(with("elements", elements(), of_lease(value)))
}

/// The same for a first attempt with this id, whose reply most often is a grant.
///
/// A last holder with this id that was admitted at the time of this command was admitted by it. Then the list is not
/// corrupt, and the call needs to know no more of the others than whether there are any. To check 100 others for each
/// reply cost the server an eighth of the processor time of an exclusive pair (the case `permits` of the benchmark).
pub(super) fn fast_projection(value: &str, id: &str) -> Document {
    let last = |field: &str| format!("{LAST}.{field}");
    let is_new = doc! {
        "$and": [
            { "$eq": [last(holder::ID), literal(id)] },
            { "$eq": [last(holder::ACQUIRED_AT), "$$NOW"] },
        ],
    };
    let is_alone = doc! { "$eq": [{ "$size": ELEMENTS }, 1] };
    let granted = doc! {
        OWN: own_part(LAST),
        IN_USE: { "$cond": [&is_alone, last(holder::PERMITS), "$$REMOVE"] },
        LIMIT: { "$cond": [is_alone, last(holder::LIMIT), "$$REMOVE"] },
    };
    let shared = doc! { "$cond": [is_new, granted, of_lease(value)] };
    let shared = with("last", doc! { "$arrayElemAt": [ELEMENTS, -1] }, shared);
    with_shared(with("elements", elements(), shared))
}

fn with_shared(shared: Document) -> Document {
    let mut fields = snapshot::projection();
    fields.insert(SHARED, shared);
    fields
}

/// The part of a reply that tells of [`ELEMENTS`], if the lease is in shared use.
fn of_lease(value: &str) -> Document {
    let own = doc! { "$arrayElemAt": [queue::filter(ELEMENTS, is_of(value)), 0] };
    let first = doc! { "$min": format!("{ELEMENTS}.{}", holder::EXPIRES_AT) };
    let left = doc! { "$subtract": ["$$first", "$$NOW"] };
    let left = doc! { "$cond": [{ "$lte": ["$$first", "$$NOW"] }, Bson::Int64(0), left] };
    let shared = doc! {
        OWN: with("own", own, own_part("$$own")),
        FIRST_MS: with("first", first, left),
        IN_USE: { "$sum": format!("{ELEMENTS}.{}", holder::PERMITS) },
        LIMIT: { "$min": format!("{ELEMENTS}.{}", holder::LIMIT) },
    };
    doc! { "$cond": [is_shared(), shared, {}] }
}

fn own_part(of: &str) -> Document {
    let part = |field: &str| (field.to_owned(), Bson::from(format!("{of}.{field}")));
    OWN_FIELDS.into_iter().map(part).collect()
}

/// The caller's own record.
pub(super) struct Own {
    pub(super) id: GrantId,
    permits: Option<Permits>,
    expires_at: Option<DateTime<Utc>>,
}

impl Own {
    pub(super) fn granted(
        self,
        sent: Instant,
        token: Option<Timestamp>,
        info: LeaseInfo,
        permits: Permits,
    ) -> AcquireReply {
        let Own { id, expires_at, .. } = self;
        let share = GrantedShare { permits: self.permits.unwrap_or(permits), expires_at };
        AcquireReply::Granted(Granted { sent, grant_id: id, token, info, share: Some(share) })
    }
}

fn own(document: &Document) -> Option<Own> {
    let number = |field| u32::try_from(document.get_i64(field).ok()?).ok();
    let permits = number(holder::PERMITS).zip(number(holder::LIMIT));
    Some(Own {
        id: GrantId::from(document.get_str(holder::ID).ok()?),
        permits: permits.and_then(|(count, limit)| Permits::new(count, limit).ok()),
        expires_at: snapshot::date(document, holder::EXPIRES_AT),
    })
}

/// The document in a reply.
pub(super) struct Found {
    pub(super) snapshot: LeaseSnapshot,
    pub(super) own: Option<Own>,
    pub(super) ahead: Option<u32>,
    pub(super) has_queue: bool,
}

pub(super) fn read(reply: &Document, request: &AcquireRequest) -> Result<Found, DecodeError> {
    let document = reply.get_document("value").map_err(|_| {
        DecodeError::Reply("the reply to an acquire contains no document".to_owned())
    })?;
    let mut snapshot = snapshot::read(document);
    // Another program's name may match ours without being a string.
    snapshot.info.name.clone_from(&request.name);
    let shared = document.get_document(SHARED).ok();
    let number = |field| shared.and_then(|shared| shared.get_i64(field).ok());
    if let Some(first) = number(FIRST_MS) {
        snapshot.info.remaining = Some(from_millis(first));
    }
    if let Some((in_use, limit)) = number(IN_USE).zip(number(LIMIT)) {
        let counts = (snapshot::small(in_use), snapshot::small(limit));
        snapshot.info.count_permits([counts]);
    }
    Ok(Found {
        snapshot,
        own: shared.and_then(|shared| own(shared.get_document(OWN).ok()?)),
        // It is -1 when this call is not in the queue.
        ahead: document.get_i32(AHEAD).ok().and_then(|ahead| ahead.try_into().ok()),
        has_queue: document.get_bool(HAS_QUEUE).unwrap_or(true),
    })
}
