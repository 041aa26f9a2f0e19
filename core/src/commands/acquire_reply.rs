//! The reply to an acquire: the lease, and the caller's own grant in either form.

use super::admission::{elements, is_of, is_shared};
use super::*;

/// The fields of the reply: the caller's own record in the list, the time until the first holder's expiry, the
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

/// The document in the reply to an upsert.
pub(super) fn document(reply: &Document) -> Result<&Document, DecodeError> {
    let document = reply.get_document("value");
    document.map_err(|_| malformed("the reply to an acquire contains no document"))
}

/// A call for the exclusive lease finds its grant in the plain fields, and needs to know of a list of holders only
/// that it is. A call for a share needs its own record.
pub(super) fn projection(request: &AcquireRequest) -> Document {
    let projection = snapshot::projection();
    if request.permits.is_exclusive() {
        return projection;
    }
    let shared = bind("elements", elements(), |elements| of_lease(elements, &request.value));
    with(projection, SHARED, shared)
}

/// The same for a first attempt with this id, whose reply most often is a grant.
///
/// A last holder with this id that was admitted at the time of this command was admitted by it. Then the list is not
/// corrupt, and the call needs to know no more of the others than whether there are any. A check of all others would
/// cost the server much time.
pub(super) fn fast_projection(value: &str, id: &str) -> Document {
    let shared = in_scope(|scope| {
        let elements = scope.bind("elements", elements());
        let last = scope.bind("last", doc! { "$arrayElemAt": [elements, -1] });
        let is_this = eq(last.field(holder::ID), literal(id));
        let is_new = eq(last.field(holder::ACQUIRED_AT), "$$NOW");
        let is_alone = eq(doc! { "$size": elements }, 1);
        let granted = doc! {
            OWN: own_part(last),
            IN_USE: cond(&is_alone, last.field(holder::PERMITS), "$$REMOVE"),
            LIMIT: cond(is_alone, last.field(holder::LIMIT), "$$REMOVE"),
        };
        cond(all([is_this, is_new]), granted, of_lease(elements, value))
    });
    with(snapshot::projection(), SHARED, shared)
}

/// The part of a reply that tells of these holders, if the lease is held by several.
fn of_lease(elements: Variable, value: &str) -> Document {
    let own = filter(elements, |each| is_of(each, value));
    let first = doc! { "$min": elements.field(holder::EXPIRES_AT) };
    let shared = doc! {
        OWN: bind("own", doc! { "$arrayElemAt": [own, 0] }, own_part),
        FIRST_MS: bind("first", first, |first| {
            let left = doc! { "$subtract": [first, "$$NOW"] };
            cond(doc! { "$lte": [first, "$$NOW"] }, 0_i64, left)
        }),
        IN_USE: { "$sum": elements.field(holder::PERMITS) },
        LIMIT: { "$min": elements.field(holder::LIMIT) },
    };
    cond(is_shared(elements), shared, doc! {})
}

fn own_part(of: Variable) -> Document {
    of.fields([holder::ID, holder::EXPIRES_AT, holder::PERMITS, holder::LIMIT, holder::ACQUIRED_AT])
}

/// The caller's own grant: its id, and its part of a lease that several hold.
pub(super) type Own = (GrantId, Option<GrantedShare>);

/// The grant of this record. Its permits may be those of an earlier call with the same value.
fn own_share(record: &Document, request: &AcquireRequest) -> Option<Own> {
    let number = |field| u32::try_from(record.get_i64(field).ok()?).ok();
    let permits = number(holder::PERMITS).zip(number(holder::LIMIT));
    let permits = permits.and_then(|(count, limit)| Permits::new(count, limit).ok());
    let share = GrantedShare {
        permits: permits.unwrap_or(request.permits),
        expires_at: snapshot::date(record, holder::EXPIRES_AT),
        acquired_at: snapshot::date(record, holder::ACQUIRED_AT),
    };
    Some((GrantId::from(record.get_str(holder::ID).ok()?), Some(share)))
}

/// The document in a reply.
pub(super) struct Found {
    pub(super) snapshot: LeaseSnapshot,
    pub(super) own: Option<Own>,
    pub(super) ahead: Option<u32>,
    pub(super) has_queue: bool,
}

pub(super) fn read(reply: &Document, request: &AcquireRequest) -> Result<Found, DecodeError> {
    let document = document(reply)?;
    let mut snapshot = snapshot::read(document);
    // Another program's name may match ours without being a string.
    snapshot.info.name.clone_from(&request.name);
    let shared = document.get_document(SHARED).ok();
    let number = |field| shared.and_then(|shared| shared.get_i64(field).ok());
    if let Some(first) = number(FIRST_MS) {
        snapshot.info.remaining = Some(from_millis(first));
    }
    if let Some((in_use, limit)) = number(IN_USE).zip(number(LIMIT)) {
        snapshot.info.count_permits([(snapshot::small(in_use), snapshot::small(limit))]);
    }
    let own = if request.permits.is_exclusive() {
        let is_own = snapshot.info.value.as_ref() == Some(&request.value)
            && !matches!(snapshot.info.state, LeaseState::Damaged { .. });
        snapshot.info.grant_id.clone().filter(|_| is_own).map(|id| (id, None))
    } else {
        shared.and_then(|it| own_share(it.get_document(OWN).ok()?, request))
    };
    Ok(Found {
        snapshot,
        own,
        // It is -1 when this call is not in the queue.
        ahead: document.get_i32(AHEAD).ok().and_then(|ahead| ahead.try_into().ok()),
        has_queue: document.get_bool(HAS_QUEUE).unwrap_or(true),
    })
}
