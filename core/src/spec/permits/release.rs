//! Release in shared use: ends a grant, leaves the queue, and admits the waiters that fit then.

use super::super::document::{Document, Expiry, GrantKey};
use super::super::holders::{Holder, HolderElement};
use super::super::release::{GrantMatch, LONG_AGO};
use super::super::types::Types;
use super::admit;
use super::fitting::Room;
use super::protections::PermitProtections;

/// The effects that a release may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReleaseScope {
    /// A grant, of a share or of the exclusive lease.
    Grant,
    /// The same. A caller that holds nothing leaves the queue instead.
    GrantOrEntry,
}

/// Ends the grants of this value in either form, takes its entry out of the queue, and admits as many waiters as fit,
/// in one write. Says whether it found a grant or an entry.
///
/// So it is the hand-off of an exclusive holder too, where an entry in the queue has a share. A caller that only leaves
/// the queue can make room as well: where it asked for many permits, it blocked those behind it.
///
/// Where it admits nobody and the lease ends earlier than before, the first waiter is told to send another attempt.
pub fn release_and_admit<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    scope: ReleaseScope,
    now: i64,
    protections: &impl PermitProtections,
) -> (Option<Document<T>>, bool) {
    let Some(document) = found else {
        return (None, false);
    };
    let is_meant = |shown: &T::Value, id: &T::GrantId| shown == value && grant.has(Some(id));
    let is_meant_element = |element: &HolderElement<T>| {
        let (shown, id) = element.shown();
        shown == Some(value) && grant.has(id)
    };
    let has_share =
        document.is_in_shared_use() && document.holders.elements().iter().any(is_meant_element);
    let has_lease = grant.is_shown_by(&document, value);
    let leaves = scope == ReleaseScope::GrantOrEntry && document.queue.position(value).is_some();
    let is_dated = matches!(document.expiry, Expiry::At(_));
    if !is_dated || !(has_share || has_lease || leaves) {
        return (Some(document), false);
    }
    let is_ended = |holder: &Holder<T>| is_meant(&holder.value, &holder.id);
    let counts = |holder: &Holder<T>| holder.expires_at > now || is_ended(holder);
    let is_open =
        document.expiry.has_passed(now) || has_lease || document.sharers().iter().any(counts);
    let may_admit = has_share || has_lease || protections.admits_when_leaving();
    if !is_open || !may_admit {
        let (queue, holders) = (document.queue.without(value), document.holders.clone());
        let holders = holders.without(is_meant_element);
        return (Some(Document { queue, holders, ..document }), true);
    }
    let mut kept = document.sharers();
    kept.retain(|holder| holder.expires_at > now && !is_ended(holder));
    let mut line = admit::line(&document, &kept, None, now);
    line.retain(|entry| entry.value != *value);
    let room = Room { kept, is_open, asker: None, now };
    (Some(room.filled(document, line, protections)), true)
}

/// Ends one grant in shared use where nobody is in the queue, dead or alive, and says whether it did.
///
/// It leaves other expired holders to the next admission. Behind the last holder it leaves a tombstone.
pub fn release_permit<T: Types>(
    found: Option<Document<T>>,
    key: &GrantKey<T>,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(document)
            if shows(&document, key)
                && matches!(document.expiry, Expiry::At(_))
                && document.holders.are_dated()
                && document.queue.is_empty() =>
        {
            let holders =
                document.holders.clone().without(|element| element.shown().1 == Some(&key.id));
            let latest = holders.latest_expiry();
            let (value, expiry) = match holders.elements() {
                [] => (T::nobody(), Expiry::At(LONG_AGO)),
                _ => (T::shared(), latest.map_or(Expiry::Absent, Expiry::At)),
            };
            (Some(Document { value: Some(value), expiry, holders, ..document }), true)
        }
        found => (found, false),
    }
}

/// Deletes the document if this grant is the only one in shared use and nobody is in the queue, dead or alive. Says
/// whether it did.
pub fn delete_last_holder<T: Types>(
    found: Option<Document<T>>,
    key: &GrantKey<T>,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(document)
            if shows(&document, key)
                && document.expiry != Expiry::Damaged
                && document.holders.elements().len() == 1
                && document.queue.is_empty() =>
        {
            (None, true)
        }
        found => (found, false),
    }
}

/// Whether the document shows this grant in shared use.
fn shows<T: Types>(document: &Document<T>, key: &GrantKey<T>) -> bool {
    let is_key = |element: &HolderElement<T>| element.shown() == (Some(&key.value), Some(&key.id));
    document.is_in_shared_use() && document.holders.elements().iter().any(is_key)
}
