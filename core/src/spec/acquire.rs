//! Acquire: grants a free lease, or adds the caller to the queue.

use super::document::{Document, Entry, Expiry, Grant, Queue};
use super::protections::Protections;
use super::queue;
use super::request::AcquireRequest;
use super::types::Types;

/// The answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireReply<T: Types> {
    /// The caller has the lease. The id may be that of an earlier attempt.
    Granted(T::GrantId),
    /// The caller does not have the lease.
    Refused {
        /// How many elements of the queue are before the caller's, if it is in the queue.
        ahead: Option<usize>,
        /// The time until the expiry: zero where the lease is free, and it is another waiter's turn.
        remaining: Option<i64>,
    },
}

/// Grants a free lease, unless another live waiter is first. Otherwise a call that may wait joins the queue.
///
/// The lease is also granted to the caller that holds it already: this is how a repeated attempt finds the grant of an
/// attempt whose reply was lost.
pub fn acquire<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireReply<T>) {
    // The upsert makes an empty document, and the pipeline finds it.
    let before = found.unwrap_or_else(Document::empty);
    let live = queue::live_entries_for(&before, request, now);
    let is_first = live.first().is_none_or(|first| request.owns(&first.value));
    let is_own = request.holds(&before) && before.expiry != Expiry::Damaged;
    if is_own || before.expiry.has_passed(now) && (is_first || !protections.has_order()) {
        let (after, id) = granted(before, request, now, &live, protections);
        return (Some(after), AcquireReply::Granted(id));
    }
    let remaining = before.expiry.remaining(now);
    let after = queue::joined(before, request, now, live, protections);
    let ahead = request.joins.and_then(|_| after.queue.position(&request.value));
    (Some(after), AcquireReply::Refused { ahead, remaining })
}

/// The document after a grant to the caller.
///
/// A caller that was in the queue has sent heartbeats, and a promotion could have counted from the newest of them. So
/// where `now` is older than that heartbeat, the grant counts from the heartbeat, with its echo. (A second protection:
/// see `taken_over_from`.)
fn granted<T: Types>(
    before: Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
    live: &[Entry<T>],
    protections: &impl Protections,
) -> (Document<T>, T::GrantId) {
    let entry = live.iter().find(|entry| request.owns(&entry.value));
    let newer = entry.filter(|entry| entry.heartbeat_at > now);
    let from = newer.map_or(now, |entry| protections.taken_over_from(now, entry.heartbeat_at));
    let sent = newer.map_or(request.sent, |entry| entry.sent);
    let until = request.lasts_until(from);
    let is_mine = before.is_held_by(&request.value);
    let expiry = match is_mine {
        true => protections.granted_again(before.expiry, until),
        false => Expiry::At(until),
    };
    let writes = before.writes() + 1;
    let grant = match before.holders_grant().filter(|_| is_mine) {
        // The attempt that was granted first may rely on the longer ttl, and its id stays.
        Some(mine) => Grant {
            sent,
            ttl: mine.ttl.max(request.ttl),
            max_clock_skew: mine.max_clock_skew.max(request.max_clock_skew),
            writes,
            ..mine.clone()
        },
        None => request.new_grant(sent, now, writes),
    };
    let others = live.iter().filter(|entry| !request.owns(&entry.value)).cloned();
    // A value that is no list counts as no queue, and stays where it is.
    let queue = match before.queue {
        Queue::Damaged => Queue::Damaged,
        Queue::Absent | Queue::List(_) => Queue::of(others),
    };
    let id = grant.id.clone();
    let value = Some(request.value.clone());
    (Document { value, expiry, grant: Some(grant), queue, ..before }, id)
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
