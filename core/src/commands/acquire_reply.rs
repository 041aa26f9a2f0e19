//! The reply to an acquire: the lease, and the caller's own grant in either form.

use crate::bson::{Bson, Document, doc};
use crate::format::holder;
use crate::rules::ids::GrantId;
use crate::rules::permits::Permits;
use crate::rules::time::{Instant, from_millis};

use super::admission::{elements, is_of, is_shared};
use super::variables::{Variable, bind, filter};
use crate::bson::Timestamp;
use crate::commands::DecodeError;
use crate::commands::acquire_parts::{AcquireReply, AcquireRequest, Granted, GrantedShare};
use crate::commands::literal;
use crate::commands::snapshot::{self, LeaseSnapshot};
use crate::info::{LeaseInfo, LeaseState};

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

/// The fields of that record in the reply.
const OWN_FIELDS: [&str; 4] = [holder::ID, holder::EXPIRES_AT, holder::PERMITS, holder::LIMIT];

/// A call for the exclusive lease finds its grant in the plain fields, and needs to know of a lease in shared use only
/// that it is. A call for a share needs its own record.
pub(super) fn projection(request: &AcquireRequest) -> Document {
    match request.permits.is_exclusive() {
        true => snapshot::projection(),
        false => with_shared(bind("elements", elements(), |list| of_lease(list, &request.value))),
    }
}

/// The same for a first attempt with this id, whose reply most often is a grant.
///
/// A last holder with this id that was admitted at the time of this command was admitted by it. Then the list is not
/// corrupt, and the call needs to know no more of the others than whether there are any. To check 100 others for each
/// reply cost the server an eighth of the processor time of an exclusive pair (the case `permits` of the benchmark).
pub(super) fn fast_projection(value: &str, id: &str) -> Document {
    with_shared(bind("elements", elements(), |elements| {
        bind("last", doc! { "$arrayElemAt": [elements, -1] }, |last| {
            let is_new = doc! {
                "$and": [
                    { "$eq": [last.field(holder::ID), literal(id)] },
                    { "$eq": [last.field(holder::ACQUIRED_AT), "$$NOW"] },
                ],
            };
            let is_alone = doc! { "$eq": [{ "$size": elements }, 1] };
            let granted = doc! {
                OWN: own_part(last),
                IN_USE: { "$cond": [&is_alone, last.field(holder::PERMITS), "$$REMOVE"] },
                LIMIT: { "$cond": [is_alone, last.field(holder::LIMIT), "$$REMOVE"] },
            };
            doc! { "$cond": [is_new, granted, of_lease(elements, value)] }
        })
    }))
}

fn with_shared(shared: Document) -> Document {
    let mut fields = snapshot::projection();
    fields.insert(SHARED, shared);
    fields
}

/// The part of a reply that tells of these holders, if the lease is in shared use.
fn of_lease(elements: Variable, value: &str) -> Document {
    let own = filter(elements, |each| is_of(each, value));
    let first = doc! { "$min": elements.field(holder::EXPIRES_AT) };
    let shared = doc! {
        OWN: bind("own", doc! { "$arrayElemAt": [own, 0] }, own_part),
        FIRST_MS: bind("first", first, |first| {
            let left = doc! { "$subtract": [first, "$$NOW"] };
            doc! { "$cond": [{ "$lte": [first, "$$NOW"] }, Bson::Int64(0), left] }
        }),
        IN_USE: { "$sum": elements.field(holder::PERMITS) },
        LIMIT: { "$min": elements.field(holder::LIMIT) },
    };
    doc! { "$cond": [is_shared(elements), shared, {}] }
}

fn own_part(of: Variable) -> Document {
    OWN_FIELDS.into_iter().map(|field| (field.to_owned(), Bson::from(of.field(field)))).collect()
}

/// The caller's own grant.
pub(super) struct Own {
    pub(super) id: GrantId,
    /// Its part of a lease in shared use.
    share: Option<GrantedShare>,
}

impl Own {
    pub(super) fn granted(
        self,
        sent: Instant,
        token: Option<Timestamp>,
        info: LeaseInfo,
    ) -> AcquireReply {
        let Own { id: grant_id, share } = self;
        AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
    }
}

/// The grant of the exclusive lease, if this call has it.
fn own_lease(snapshot: &LeaseSnapshot, request: &AcquireRequest) -> Option<Own> {
    let is_held = snapshot.info.value.as_ref() == Some(&request.value);
    let is_sound = !matches!(snapshot.info.state, LeaseState::Damaged { .. });
    let id = snapshot.grant_id.clone().filter(|_| is_held && is_sound)?;
    Some(Own { id, share: None })
}

/// The grant of this record. Its permits may be those of an earlier call with the same value.
fn own_share(record: &Document, request: &AcquireRequest) -> Option<Own> {
    let number = |field| u32::try_from(record.get_i64(field).ok()?).ok();
    let permits = number(holder::PERMITS).zip(number(holder::LIMIT));
    let permits = permits.and_then(|(count, limit)| Permits::new(count, limit).ok());
    let share = GrantedShare {
        permits: permits.unwrap_or(request.permits),
        expires_at: snapshot::date(record, holder::EXPIRES_AT),
    };
    Some(Own { id: GrantId::from(record.get_str(holder::ID).ok()?), share: Some(share) })
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
    let own = match request.permits.is_exclusive() {
        true => own_lease(&snapshot, request),
        false => shared.and_then(|it| own_share(it.get_document(OWN).ok()?, request)),
    };
    Ok(Found {
        snapshot,
        own,
        // It is -1 when this call is not in the queue.
        ahead: document.get_i32(AHEAD).ok().and_then(|ahead| ahead.try_into().ok()),
        has_queue: document.get_bool(HAS_QUEUE).unwrap_or(true),
    })
}
