//! Acquire: grants to the caller, and for permits to the waiters that fit; otherwise the caller joins the queue.

use super::admission::{self, Room};
use super::*;

/// The answer to an attempt. The reply of a server, `AcquireReply` in `commands`, shows the lease and the token too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireAnswer<T: Types> {
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

/// Grants the lease to its caller if nobody waits before it and it fits. Otherwise a call that may wait joins the
/// queue.
///
/// An attempt for permits also admits the waiters before and behind its caller, as many as fit. An exclusive one grants
/// to its caller alone: where the lease is free and others wait before it, it tells the first of them to come.
///
/// A caller that holds already finds its own grant, and is only prolonged: this is how a repeated attempt finds the
/// grant of an attempt whose reply was lost. An attempt that may not wait and is not admitted changes nothing.
pub fn acquire<T: Types>(
    found: Option<Document<T>>,
    attempt: &AcquireAttempt<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireAnswer<T>) {
    // The upsert makes an empty document, and the pipeline finds it.
    let before = found.unwrap_or_else(Document::empty);
    if attempt.has_lease(&before) && protections.keeps_own_lease() {
        let (after, id) = granted_again(before, attempt, now, protections);
        return (Some(after), AcquireAnswer::Granted(id));
    }
    let is_exclusive = attempt.permits.is_exclusive();
    // An exclusive caller holds alone. If it is granted the lease, no other holder stays; if it is refused, all stay.
    let mut kept = match is_exclusive {
        true => Vec::new(),
        false => admission::kept(&before, Some(attempt), now, protections),
    };
    let is_open = before.expiry.has_passed(now)
        || attempt.inherits_lease(&before)
        || attempt.has_lease(&before)
        || !kept.is_empty();
    let mut line = admission::line(&before, &kept, Some(attempt), now);
    let length = line.len();
    let place = line.iter().position(|entry| attempt.owns(&entry.value));
    let own = attempt.entry(place.map(|place| &line[place]), now, protections);
    line.retain(|entry| !attempt.owns(&entry.value));
    let is_holder = kept.iter().any(|holder| attempt.is_holder(holder));
    if !is_holder || !protections.attempt_finds_own() {
        let position = match place {
            _ if attempt.inherits_lease(&before) || !protections.has_order() => 0,
            Some(place) if protections.keeps_position() => place,
            Some(_) | None => line.len(),
        };
        line.insert(position, own);
    }
    for holder in kept.iter_mut().filter(|holder| attempt.is_holder(holder)) {
        holder.expires_at = holder.expires_at.max(attempt.lasts_until(now));
        holder.grant = holder.grant.clone().prolonged(attempt, attempt.sent);
    }
    let room = Room { kept, is_open, asker: Some(&attempt.value), now, protections };
    let after = match is_exclusive {
        true => room.taken(before.clone(), line),
        false => room.filled(before.clone(), line),
    };
    let id = own_grant(&after, attempt);
    let has_place = |joins: QueueOptions| place.is_some() || length < joins.max_waiting as usize;
    let may_wait = before.expiry != Expiry::Damaged && attempt.joins.is_some_and(has_place);
    let after = if id.is_some() || may_wait { after } else { before };
    let room = if is_exclusive { after.expiry } else { admission::first_expiry(&after) };
    let ahead = attempt.joins.and_then(|_| after.queue.position(&attempt.value));
    let refused = AcquireAnswer::Refused { ahead, remaining: room.remaining(now) };
    (Some(after), id.map_or(refused, AcquireAnswer::Granted))
}

/// The document of a caller that has the exclusive lease already: it is only prolonged, and its id stays.
fn granted_again<T: Types>(
    before: Document<T>,
    attempt: &AcquireAttempt<T>,
    now: i64,
    protections: &impl Protections,
) -> (Document<T>, T::GrantId) {
    let line = admission::line(&before, &[], Some(attempt), now).into_iter();
    let (owned, others): (Vec<_>, Vec<_>) = line.partition(|entry| attempt.owns(&entry.value));
    let own = attempt.entry(owned.first(), now, protections);
    let from = admission::asked_from(&own, now, protections);
    let expiry = protections.granted_again(before.expiry, attempt.lasts_until(from));
    let grant = match before.holders_grant().cloned() {
        Some(mine) => mine.prolonged(attempt, own.sent),
        None => Grant { id: attempt.id.clone(), ..own.grant(now, before.writes() + 1) },
    };
    let id = grant.id.clone();
    let queue = queue::after(&before.queue, others);
    (Document { expiry, grant: Some(grant), queue, ..before }, id)
}

impl<T: Types> Grant<T> {
    /// Another attempt found it. The attempt that was granted first may rely on the longer ttl.
    fn prolonged(self, attempt: &AcquireAttempt<T>, sent: i64) -> Grant<T> {
        let ttl = self.ttl.max(attempt.ttl);
        let max_clock_skew = self.max_clock_skew.max(attempt.max_clock_skew);
        Grant { sent, ttl, max_clock_skew, writes: self.writes + 1, ..self }
    }
}

/// The grant that the caller has in this document, in the form that its limit asks for.
fn own_grant<T: Types>(document: &Document<T>, attempt: &AcquireAttempt<T>) -> Option<T::GrantId> {
    if attempt.permits.is_exclusive() {
        let own = document.holders_grant().filter(|_| attempt.has_lease(document));
        return own.map(|grant| grant.id.clone());
    }
    let own = document.sharers().into_iter().find(|holder| attempt.is_holder(holder));
    own.map(|holder| holder.grant.id)
}

/// Inserts a document with a grant where there is none. Else it does nothing, and does not say who holds the lease.
pub fn insert<T: Types>(
    found: Option<Document<T>>,
    attempt: &AcquireAttempt<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireAnswer<T>) {
    match found {
        None => acquire(None, attempt, now, protections),
        found => (found, AcquireAnswer::UseSlowForm),
    }
}
