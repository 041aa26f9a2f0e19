//! Release: deletes the document, makes a tombstone, hands the lease off, or keeps its name blocked for a while.

use super::document::{Document, Entry, Expiry, Grant, Promoted, Queue};
use super::holders::HolderElement;
use super::protections::Protections;
use super::queue;
use super::types::Types;

/// The expiry of a tombstone: before everything that any clock shows.
pub const LONG_AGO: i64 = 0;

/// Which of a value's grants a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantMatch<T: Types> {
    /// Any grant.
    Any,
    /// This grant.
    Grant(T::GrantId),
    /// Any grant of this call except the accepted one, which has a release of its own.
    Call(T::CallId, Option<T::GrantId>),
}

/// To whom a lease may be handed off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandOffTo {
    /// The first live waiter. Without one, nothing happens.
    LiveWaiter,
    /// The first live waiter. Without one, the lease ends.
    LiveWaiterOrNobody,
    /// The same. A caller that does not hold the lease leaves the queue instead.
    AfterLeavingQueue,
}

impl<T: Types> GrantMatch<T> {
    /// Whether the document shows the lease held by this value, with this grant.
    pub fn is_shown_by(&self, document: &Document<T>, value: &T::Value) -> bool {
        let id = document.grant.as_ref().map(|grant| &grant.id);
        document.is_held_by(value) && self.has(id)
    }

    /// Whether it means the grant with this id.
    pub(super) fn has(&self, id: Option<&T::GrantId>) -> bool {
        match self {
            GrantMatch::Any => true,
            GrantMatch::Grant(meant) => id == Some(meant),
            GrantMatch::Call(call, except) => {
                id.is_some_and(|id| T::is_of_call(id, call) && Some(id) != except.as_ref())
            }
        }
    }
}

/// Deletes the document if this value and grant hold the lease and the queue has no entry, live or dead. Says whether
/// it did. As all that end a lease, it leaves a damaged document as it is.
pub fn release<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let is_held = |document: &Document<T>| {
        grant.is_shown_by(document, value) && protections.may_write(document.expiry)
    };
    match found {
        Some(document) if document.queue.is_empty() && is_held(&document) => (None, true),
        found => (found, false),
    }
}

/// Makes a tombstone of the document where a release would delete it, and says whether it did.
///
/// A tombstone expired long ago, by every clock, and nobody holds it. The next acquire of the name finds it.
pub fn tombstone<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    match release(found.clone(), value, grant, protections) {
        (None, true) => {
            let kept = found.filter(|_| !protections.empties_tombstones());
            let document =
                kept.unwrap_or_else(|| Document { value: Some(T::nobody()), ..Document::empty() });
            (Some(Document { expiry: Expiry::At(LONG_AGO), ..document }), true)
        }
        kept => kept,
    }
}

/// Hands the lease off if this value and grant hold it, and says whether it changed the document.
///
/// `AfterLeavingQueue` also removes the entry of a value that only waits.
///
/// It changes nothing that [`is_left_to_admit`].
pub fn hand_off<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    to: HandOffTo,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let Some(document) = found else {
        return (None, false);
    };
    let is_left = is_left_to_admit(Some(&document), value, grant, to, now);
    let may_write = protections.may_write(document.expiry);
    if is_left || !may_write || !is_for_hand_off(&document, value, grant, to, now) {
        return (Some(document), false);
    }
    let holds = grant.is_shown_by(&document, value);
    let live = queue::live_entries_without(&document, value, now);
    let is_leaving = to == HandOffTo::AfterLeavingQueue;
    if !holds || is_leaving && !protections.hands_off_when_leaving() {
        return (Some(Document { queue: Queue::of(live), ..document }), true);
    }
    let after = match protections.promotes(&live).cloned() {
        Some(head) => promoted(document, head, live, now, protections),
        None => ended(document, now, protections),
    };
    (Some(after), true)
}

/// Whether a hand-off finds the lease and leaves it to `release_and_admit`.
///
/// It leaves a lease while an entry in the queue has a share, because a promotion would make an exclusive holder of
/// that waiter. It also leaves a share that is released by its holder's value alone.
pub fn is_left_to_admit<T: Types>(
    found: Option<&Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    to: HandOffTo,
    now: i64,
) -> bool {
    let Some(document) = found.filter(|document| document.expiry != Expiry::Damaged) else {
        return false;
    };
    let is_by_value = to == HandOffTo::LiveWaiterOrNobody && matches!(grant, GrantMatch::Any);
    let is_shared = is_by_value && document.is_in_shared_use();
    let shows_value = |element: &HolderElement<T>| element.shown().0 == Some(value);
    let has_share = is_shared && document.holders.elements().iter().any(shows_value);
    let is_found = has_share || is_for_hand_off(document, value, grant, to, now);
    let has_shares_in_queue = document.queue.entries().any(|entry| entry.share.is_some());
    is_found && (is_shared || has_shares_in_queue)
}

/// Whether a hand-off has anything to do.
fn is_for_hand_off<T: Types>(
    document: &Document<T>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    to: HandOffTo,
    now: i64,
) -> bool {
    let holds = grant.is_shown_by(document, value);
    match to {
        HandOffTo::LiveWaiter => {
            holds && !queue::live_entries_without(document, value, now).is_empty()
        }
        HandOffTo::LiveWaiterOrNobody => holds,
        HandOffTo::AfterLeavingQueue => holds || document.queue.position(value).is_some(),
    }
}

/// The document without a holder. Its grant stays and describes nobody, because its value is not the document's.
fn ended<T: Types>(document: Document<T>, now: i64, protections: &impl Protections) -> Document<T> {
    match protections.frees_without_waiter() {
        true => {
            let (value, expiry) = (Some(T::nobody()), Expiry::At(now));
            Document { value, expiry, queue: Queue::Absent, ..document }
        }
        false => Document { queue: Queue::Absent, ..document },
    }
}

/// The document with the lease in the hands of a waiter, which has sent no command for it.
///
/// The grant lasts no longer than the entry lives after a heartbeat, because the waiter may have died since. It counts
/// from the newest heartbeat where `now` is older.
pub(super) fn promoted<T: Types>(
    document: Document<T>,
    head: Entry<T>,
    live: Vec<Entry<T>>,
    now: i64,
    protections: &impl Protections,
) -> Document<T> {
    let term = head.ttl.min(head.expires_at - head.heartbeat_at).max(0);
    let from = protections.promoted_from(now, head.heartbeat_at);
    let writes = document.writes() + 1;
    let others = live.into_iter().filter(|entry| entry.value != head.value);
    Document {
        value: Some(head.value.clone()),
        expiry: Expiry::At(from + term + head.max_clock_skew),
        queue: Queue::of(others),
        promoted: Some(Promoted::Entry { id: head.id.clone(), sent: head.sent }),
        grant: Some(Grant {
            value: head.value,
            id: head.id,
            sent: head.sent,
            acquired_at: now,
            ttl: head.ttl,
            max_clock_skew: head.max_clock_skew,
            writes,
            details: head.details,
        }),
        ..document
    }
}

/// Ends a lease, and blocks its name until `hold_at_least` after the grant. Says whether it was held.
///
/// The first waiter now waits for another moment, and is told to send another attempt.
pub fn release_later<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    hold_at_least: i64,
    now: i64,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(mut document)
            if grant.is_shown_by(&document, value) && document.expiry != Expiry::Damaged =>
        {
            let live = queue::live_entries_without(&document, value, now);
            let recheck = live.into_iter().next().map(|head| Promoted::Recheck { id: head.id });
            document.promoted = recheck.or(document.promoted);
            document.value = Some(T::nobody());
            if let Some(grant) = &mut document.grant {
                grant.value = T::nobody();
                document.expiry = Expiry::At(grant.acquired_at + hold_at_least);
            }
            (Some(document), true)
        }
        found => (found, false),
    }
}
