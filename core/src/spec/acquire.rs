//! Acquire: admits as many waiters as fit, and the caller behind them; otherwise the caller joins the queue.

use super::admission::{self, Room};
use super::*;

/// The answer to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireReply<T: Types> {
    /// The caller holds. The id may be that of an earlier attempt.
    Granted(T::GrantId),
    /// The caller does not hold.
    Refused {
        /// How many elements of the queue are before the caller's, if it is in the queue.
        ahead: Option<usize>,
        /// The time until a holder expires, or for an exclusive lease the last of them. `None` where there is no
        /// expiry, or a corrupt one.
        remaining: Option<i64>,
    },
    /// The answer to a fast attempt whose call has to send a slow one: it may have to join the queue, or the document
    /// is unclear.
    UseSlowForm,
}

/// Admits as many waiters as fit, and the caller behind them if it fits too. Otherwise a call that may wait joins the
/// queue.
///
/// A caller that holds already finds its own grant, and is only prolonged: this is how a repeated attempt finds the
/// grant of an attempt whose reply was lost. An attempt that may not wait and is not admitted changes nothing.
pub fn acquire<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireReply<T>) {
    // The upsert makes an empty document, and the pipeline finds it.
    let before = found.unwrap_or_else(Document::empty);
    if request.has_lease(&before) && protections.keeps_own_lease() {
        let (after, id) = granted_again(before, request, now, protections);
        return (Some(after), AcquireReply::Granted(id));
    }
    let mut kept = admission::kept(&before, Some(request), now, protections);
    let is_open = before.expiry.has_passed(now)
        || request.inherits_lease(&before)
        || request.has_lease(&before)
        || !kept.is_empty();
    let mut line = admission::line(&before, &kept, Some(request), now);
    let length = line.len();
    let place = line.iter().position(|entry| request.owns(&entry.value));
    let own = request.entry(place.map(|place| &line[place]), now, protections);
    line.retain(|entry| !request.owns(&entry.value));
    let is_holder = kept.iter().any(|holder| request.is_holder(holder));
    if !is_holder || !protections.attempt_finds_own() {
        let position = match place {
            _ if request.inherits_lease(&before) || !protections.has_order() => 0,
            Some(place) if protections.keeps_position() => place,
            Some(_) | None => line.len(),
        };
        line.insert(position, own);
    }
    for holder in kept.iter_mut().filter(|holder| request.is_holder(holder)) {
        holder.expires_at = holder.expires_at.max(request.lasts_until(now));
        holder.grant = holder.grant.clone().prolonged(request, request.sent);
    }
    let room = Room { kept, is_open, asker: Some(&request.value), now, protections };
    let after = room.filled(before.clone(), line);
    let id = own_grant(&after, request);
    let has_place = |joins: QueueOptions| place.is_some() || length < joins.max_waiting as usize;
    let may_wait = before.expiry != Expiry::Damaged && request.joins.is_some_and(has_place);
    let after = if id.is_some() || may_wait { after } else { before };
    let is_exclusive = request.permits.is_exclusive();
    let room = if is_exclusive { after.expiry } else { admission::first_expiry(&after) };
    let ahead = request.joins.and_then(|_| after.queue.position(&request.value));
    let refused = AcquireReply::Refused { ahead, remaining: room.remaining(now) };
    (Some(after), id.map_or(refused, AcquireReply::Granted))
}

/// The document of a caller that has the exclusive lease already: it is only prolonged, and its id stays.
fn granted_again<T: Types>(
    before: Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Document<T>, T::GrantId) {
    let line = admission::line(&before, &[], Some(request), now).into_iter();
    let (owned, others): (Vec<_>, Vec<_>) = line.partition(|entry| request.owns(&entry.value));
    let own = request.entry(owned.first(), now, protections);
    let from = admission::asked_from(&own, now, protections);
    let expiry = protections.granted_again(before.expiry, request.lasts_until(from));
    let grant = match before.holders_grant().cloned() {
        Some(mine) => mine.prolonged(request, own.sent),
        None => Grant { id: request.id.clone(), ..own.grant(now, before.writes() + 1) },
    };
    let id = grant.id.clone();
    let queue = queue::after(&before.queue, others);
    (Document { expiry, grant: Some(grant), queue, ..before }, id)
}

impl<T: Types> Grant<T> {
    /// Another attempt found it. The attempt that was granted first may rely on the longer ttl.
    fn prolonged(self, request: &AcquireRequest<T>, sent: i64) -> Grant<T> {
        let ttl = self.ttl.max(request.ttl);
        let max_clock_skew = self.max_clock_skew.max(request.max_clock_skew);
        Grant { sent, ttl, max_clock_skew, writes: self.writes + 1, ..self }
    }
}

/// The grant that the caller has in this document, in the form that its limit asks for.
fn own_grant<T: Types>(document: &Document<T>, request: &AcquireRequest<T>) -> Option<T::GrantId> {
    if request.permits.is_exclusive() {
        let own = document.holders_grant().filter(|_| request.has_lease(document));
        return own.map(|grant| grant.id.clone());
    }
    let own = document.sharers().into_iter().find(|holder| request.is_holder(holder));
    own.map(|holder| holder.grant.id)
}

/// Inserts a document with a grant where there is none. Else it does nothing, and does not say who holds the lease.
pub fn insert<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireReply<T>) {
    match found {
        None => acquire(None, request, now, protections),
        found => (found, AcquireReply::UseSlowForm),
    }
}
