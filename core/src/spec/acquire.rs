//! Acquire: admits as many waiters as fit, and the caller behind them; otherwise the caller joins the queue.

use super::admission::{self, Room};
use super::document::{Document, Entry, Expiry, Grant};
use super::holders::Holder;
use super::protections::Protections;
use super::queue;
use super::request::AcquireRequest;
use super::types::Types;

/// The answer to an acquire.
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
    let kept = admission::kept(&before, Some(request), now, protections);
    let is_free = before.expiry.has_passed(now)
        || request.inherits_lease(&before)
        || request.has_lease(&before);
    let is_open = is_free || !kept.is_empty();
    let is_holder =
        protections.attempt_finds_own() && kept.iter().any(|holder| request.is_holder(holder));
    let line = admission::line(&before, &kept, Some(request), now);
    let (length, had_entry) = (line.len(), line.iter().any(|it| request.owns(&it.value)));
    let line = match is_holder {
        true => line.into_iter().filter(|entry| !request.owns(&entry.value)).collect(),
        false => with_caller(line, &before, request, now, protections),
    };
    let again = |holder: Holder<T>| match request.is_holder(&holder) {
        true => prolonged(holder, request, now),
        false => holder,
    };
    let kept = kept.into_iter().map(again).collect();
    let room = Room { kept, is_open, asker: Some(&request.value), now };
    let after = room.filled(before.clone(), line, protections);
    let id = own_grant(&after, request);
    let may_wait = request.joins.is_some_and(|joins| {
        before.expiry != Expiry::Damaged && (had_entry || length < joins.queue_max as usize)
    });
    let after = if id.is_some() || may_wait { after } else { before };
    let reply = match id {
        Some(id) => AcquireReply::Granted(id),
        None => AcquireReply::Refused {
            ahead: request.joins.and_then(|_| after.queue.position(&request.value)),
            remaining: next_room(&after, request).remaining(now),
        },
    };
    (Some(after), reply)
}

/// The line with the caller: in the position that it has, or at the end. A caller that inherits the lease is first.
fn with_caller<T: Types>(
    mut line: Vec<Entry<T>>,
    before: &Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> Vec<Entry<T>> {
    let place = line.iter().position(|entry| request.owns(&entry.value));
    let own = request.entry(place.map(|place| &line[place]), now, protections);
    line.retain(|entry| !request.owns(&entry.value));
    let place = match place {
        _ if request.inherits_lease(before) || !protections.has_order() => 0,
        Some(place) if protections.keeps_position() => place,
        Some(_) | None => line.len(),
    };
    line.insert(place, own);
    line
}

/// The document of a caller that has the exclusive lease already: it is only prolonged.
///
/// The attempt that was granted first may rely on the longer ttl, and its id stays.
fn granted_again<T: Types>(
    before: Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Document<T>, T::GrantId) {
    let line = admission::line(&before, &[], Some(request), now);
    let entry = line.iter().find(|entry| request.owns(&entry.value));
    let own = request.entry(entry, now, protections);
    let from = admission::asked_from(&own, now, protections);
    let expiry = protections.granted_again(before.expiry, request.lasts_until(from));
    let writes = before.writes() + 1;
    let grant = match before.holders_grant() {
        Some(mine) => Grant {
            sent: own.sent,
            ttl: mine.ttl.max(request.ttl),
            max_clock_skew: mine.max_clock_skew.max(request.max_clock_skew),
            writes,
            ..mine.clone()
        },
        None => request.new_grant(own.sent, now, writes),
    };
    let id = grant.id.clone();
    let others = line.into_iter().filter(|entry| !request.owns(&entry.value));
    let queue = queue::after(&before.queue, others.collect());
    (Document { expiry, grant: Some(grant), queue, ..before }, id)
}

/// The caller's grant in shared use after another attempt that found it: it is only prolonged.
fn prolonged<T: Types>(holder: Holder<T>, request: &AcquireRequest<T>, now: i64) -> Holder<T> {
    Holder {
        expires_at: holder.expires_at.max(request.lasts_until(now)),
        sent: request.sent,
        ttl: holder.ttl.max(request.ttl),
        max_clock_skew: holder.max_clock_skew.max(request.max_clock_skew),
        writes: holder.writes + 1,
        ..holder
    }
}

/// When expiries alone make room for the caller: that of any holder for a share, and those of all for an exclusive
/// lease.
fn next_room<T: Types>(document: &Document<T>, request: &AcquireRequest<T>) -> Expiry {
    match request.permits.is_exclusive() {
        true => document.expiry,
        false => admission::first_expiry(document),
    }
}

/// The grant that the caller has in this document, in the form that its limit asks for.
fn own_grant<T: Types>(document: &Document<T>, request: &AcquireRequest<T>) -> Option<T::GrantId> {
    if request.permits.is_exclusive() {
        let own = document.holders_grant().filter(|_| request.has_lease(document));
        return own.map(|grant| grant.id.clone());
    }
    let own = document.sharers().into_iter().find(|holder| request.is_holder(holder));
    own.map(|holder| holder.id)
}

/// Inserts a document with a grant where there is none. Else it does nothing, and does not say who holds the lease.
pub fn insert<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, Option<AcquireReply<T>>) {
    match found {
        None => {
            let (after, answer) = acquire(None, request, now, protections);
            (after, Some(answer))
        }
        found => (found, None),
    }
}
