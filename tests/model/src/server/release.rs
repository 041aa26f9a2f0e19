//! How a lease ends: released, handed off, released later, removed, or taken by another program.

use super::queue::{self, Entry, Promoted, Queue};
use super::{Build, Document, Expiry, Grant, GrantMatch, NOBODY, Value};

/// The expiry of a tombstone: before all that any clock shows.
pub(crate) const LONG_AGO: i64 = 0;

/// To whom a lease may be handed off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum HandOffTo {
    /// The first live waiter. Without one, nothing happens.
    LiveWaiter,
    /// The first live waiter. Without one, the lease ends.
    LiveWaiterOrNobody,
    /// The same. A caller that does not hold the lease leaves the queue instead.
    AfterLeavingQueue,
}

/// Deletes the document if its holder is the right one and the queue has no entry, live or dead. Says whether it did.
pub(crate) fn release(
    found: Option<Document>,
    value: Value,
    which: GrantMatch,
) -> (Option<Document>, bool) {
    match found {
        Some(document) if is_meant(&document, value, which) => {
            let is_empty = document.queue.is_empty();
            (Some(document).filter(|_| !is_empty), is_empty)
        }
        found => (found, false),
    }
}

/// Makes a tombstone of the document where a release would delete it, and says whether it did. A tombstone expired long
/// ago, by every clock.
pub(crate) fn tombstone(
    found: Option<Document>,
    value: Value,
    which: GrantMatch,
    build: &Build,
) -> (Option<Document>, bool) {
    match release(found.clone(), value, which) {
        (None, true) => {
            // Without this, the former grant would let a late renewal bring the lease back.
            let was = found.filter(|_| !build.tombstones_are_nobodys);
            let document =
                was.unwrap_or_else(|| Document { value: Some(NOBODY), ..Document::empty() });
            (Some(Document { expiry: Expiry::At(LONG_AGO), ..document }), true)
        }
        kept => kept,
    }
}

/// Hands the lease off if its holder is the right one, and says whether there was something to be done.
pub(crate) fn hand_off(
    found: Option<Document>,
    value: Value,
    which: GrantMatch,
    to: HandOffTo,
    now: i64,
    build: &Build,
) -> (Option<Document>, bool) {
    let Some(document) = found else {
        return (None, false);
    };
    let holds = is_meant(&document, value, which);
    let line = queue::line_without(&document, value, now);
    let matches = match to {
        HandOffTo::LiveWaiter => holds && !line.is_empty(),
        HandOffTo::LiveWaiterOrNobody => holds,
        HandOffTo::AfterLeavingQueue => holds || document.queue.place(value).is_some(),
    };
    if !matches {
        return (Some(document), false);
    }
    let is_leaving = to == HandOffTo::AfterLeavingQueue;
    if !holds || is_leaving && !build.leaver_hands_on {
        return (Some(Document { queue: Queue::of(line), ..document }), true);
    }
    let head = if build.promotes_first { line.first() } else { line.last() };
    let Some(&head) = head else {
        let (value, expiry) = match build.frees {
            true => (Some(NOBODY), Expiry::At(now)),
            false => (document.value, document.expiry),
        };
        return (Some(Document { value, expiry, queue: Queue::Absent, ..document }), true);
    };
    (Some(promoted(document, head, line, now, build)), true)
}

/// Counts from the newest heartbeat where `$$NOW` is older, and lasts no longer than an entry lives.
fn promoted(
    document: Document,
    head: Entry,
    line: Vec<Entry>,
    now: i64,
    build: &Build,
) -> Document {
    let term = head.ttl.min(head.expires_at - head.heartbeat_at).max(0);
    let from = if build.promotes_from_beat { now.max(head.heartbeat_at) } else { now };
    let grant = Grant {
        value: head.value,
        id: head.id,
        sent: head.sent,
        acquired_at: now,
        ttl: head.ttl,
        max_clock_skew: head.max_clock_skew,
        writes: document.writes() + 1,
    };
    Document {
        value: Some(head.value),
        expiry: Expiry::At(from + term + head.max_clock_skew),
        grant: Some(grant),
        queue: Queue::of(line.into_iter().filter(|entry| entry.value != head.value)),
        promoted: Some(Promoted::Entry { id: head.id, sent: head.sent }),
    }
}

/// Ends a lease, and keeps its name blocked until it has been held for the given time. Says whether it was there.
pub(crate) fn release_later(
    found: Option<Document>,
    value: Value,
    which: GrantMatch,
    hold_at_least: i64,
    now: i64,
) -> (Option<Document>, bool) {
    match found {
        Some(mut document) if is_meant(&document, value, which) => {
            // The first waiter now waits for another moment.
            let line = queue::line_without(&document, value, now);
            let nudge = line.first().map(|head| Promoted::Recheck { id: head.id });
            document.promoted = nudge.or(document.promoted);
            document.value = Some(NOBODY);
            if let Some(grant) = &mut document.grant {
                grant.value = NOBODY;
                document.expiry = Expiry::At(grant.acquired_at + hold_at_least);
            }
            (Some(document), true)
        }
        found => (found, false),
    }
}

/// Whether the document shows the lease in the hands of this value and grant.
pub(crate) fn is_meant(document: &Document, value: Value, which: GrantMatch) -> bool {
    let id = document.grant.map(|grant| grant.id);
    let is_the_grant = match which {
        GrantMatch::Any => true,
        GrantMatch::Grant(meant) => id == Some(meant),
        GrantMatch::Call(call, except) => id.is_some_and(|id| id.call == call) && id != except,
    };
    document.value == Some(value) && is_the_grant
}

/// The document as the TTL monitor leaves it.
pub(crate) fn ttl_delete(found: Option<Document>, now: i64) -> Option<Document> {
    found.filter(|document| !matches!(document.expiry, Expiry::At(at) if at <= now))
}

/// A foreign program acquires an expired lease: it writes `value` and `expiresAt`, and nothing else.
pub(crate) fn foreign_take(
    found: Option<Document>,
    value: Value,
    now: i64,
    ttl: i64,
) -> (Option<Document>, bool) {
    let before = found.clone().unwrap_or_else(Document::empty);
    let is_free = match before.expiry {
        Expiry::Absent => true,
        Expiry::At(at) => at <= now,
        Expiry::Damaged => false,
    };
    match is_free {
        true => {
            (Some(Document { value: Some(value), expiry: Expiry::At(now + ttl), ..before }), true)
        }
        false => (found, false),
    }
}

/// The same program releases it, and deletes the queue with it.
pub(crate) fn foreign_release(found: Option<Document>, value: Value) -> (Option<Document>, bool) {
    match found {
        Some(document) if document.value == Some(value) => (None, true),
        found => (found, false),
    }
}
