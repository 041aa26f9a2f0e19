//! Release: deletes the document, makes a tombstone, ends one grant and admits waiters, or blocks the name for a while.

use super::admission::{self, Room};
use super::*;

/// Which of a value's grants a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantMatch<T: Types> {
    /// Any grant: the value alone decides.
    Any,
    /// This grant.
    Grant(T::GrantId),
    /// Any grant of this call's attempts, except the one that the caller accepted: that one is released by its own id.
    Call {
        /// The call.
        call_id: T::CallId,
        /// The grant that the caller accepted.
        except: Option<T::GrantId>,
    },
}

/// The documents in which [`end`] ends a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndScope {
    /// Those with other holders or with a queue. A [`delete`] is for the others.
    BesideOthers,
    /// Every one.
    Anywhere,
    /// Every one in which the value holds or has an entry.
    HeldOrQueued,
}

impl<T: Types> GrantMatch<T> {
    /// Whether the document shows the exclusive lease held by this value, with this grant.
    pub fn is_shown_by(&self, document: &Document<T>, value: &T::Value) -> bool {
        let id = document.grant.as_ref().map(|grant| &grant.id);
        document.is_held_by(value) && self.has(id)
    }

    /// Whether an element of `holders` shows this value and grant.
    fn is_shown_in(&self, element: &HolderElement<T>, value: &T::Value) -> bool {
        let (shown, id) = element.shown();
        shown == Some(value) && self.has(id)
    }

    /// Whether it means the grant with this id.
    pub fn has(&self, id: Option<&T::GrantId>) -> bool {
        match self {
            GrantMatch::Any => true,
            GrantMatch::Grant(meant) => id == Some(meant),
            GrantMatch::Call { call_id, except } => {
                id.is_some_and(|id| T::is_of_call(id, call_id) && Some(id) != except.as_ref())
            }
        }
    }
}

/// Deletes the document if this value and grant are its only holder and the queue has no entry, live or dead. Says
/// whether it did. As all that end a lease, it leaves a damaged document as it is.
pub fn delete<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let is_alone = |document: &Document<T>| {
        let is_only_element = match document.holders.elements() {
            [only] => document.is_in_shared_use() && grant.is_shown_in(only, value),
            _ => false,
        };
        is_only_element || grant.is_shown_by(document, value)
    };
    match found {
        Some(document)
            if document.queue.is_empty()
                && is_alone(&document)
                && protections.may_write(document.expiry) =>
        {
            (None, true)
        }
        found => (found, false),
    }
}

/// Makes a tombstone of the document where a [`delete`] would delete it, and says whether it did.
///
/// A tombstone expired long ago, by every clock, and nobody holds it. The next acquire of the name finds it.
pub fn tombstone<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    match delete(found.clone(), value, grant, protections) {
        (None, true) => {
            let kept = found.filter(|_| !protections.empties_tombstones());
            let document =
                kept.unwrap_or_else(|| Document { value: Some(T::nobody()), ..Document::empty() });
            (Some(Document { expiry: Expiry::At(LONG_AGO), ..document }), true)
        }
        kept => kept,
    }
}

/// Ends the grants of this value, takes its entry out of the queue, and admits as many waiters as fit, in one write.
/// Says whether it found what its scope asks for.
///
/// A caller that only leaves the queue can make room as well: where it asked for many permits, it blocked those behind
/// it.
///
/// Where it admits nobody and the lease ends earlier than before, the first waiter is told to send another attempt.
pub fn end<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    grant: &GrantMatch<T>,
    scope: EndScope,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let Some(document) = found else { return (None, false) };
    let is_meant = |element: &HolderElement<T>| grant.is_shown_in(element, value);
    let has_share = document.is_in_shared_use()
        && matches!(document.expiry, Expiry::At(_))
        && document.holders.elements().iter().any(is_meant);
    let has_lease = grant.is_shown_by(&document, value);
    let has_any = has_share || has_lease;
    // With an element in the queue, or more than one holder.
    let is_beside_others = !document.queue.is_empty()
        || document.is_in_shared_use() && document.holders.elements().len() > 1;
    let is_found = match scope {
        EndScope::BesideOthers => has_any && is_beside_others,
        EndScope::Anywhere => has_any,
        EndScope::HeldOrQueued => has_any || document.queue.position(value).is_some(),
    };
    if !protections.may_write(document.expiry) || !is_found {
        return (Some(document), false);
    }
    let is_ended =
        |holder: &Holder<T>| holder.grant.value == *value && grant.has(Some(&holder.grant.id));
    let counts = |holder: &Holder<T>| holder.expires_at > now || is_ended(holder);
    let is_leaving = scope == EndScope::HeldOrQueued && !protections.ends_when_leaving();
    let is_open = document.expiry.has_passed(now)
        || has_lease && !is_leaving
        || document.sharers().iter().any(counts);
    if !is_open || !has_any && !protections.admits_when_leaving() {
        let others = document.queue.elements().iter().filter(|it| it.value() != Some(value));
        let queue = Queue::of(others.cloned().collect());
        let holders = document.holders.clone().retaining(|element| !is_meant(element));
        return (Some(Document { queue, holders, ..document }), true);
    }
    let mut kept = admission::kept(&document, None, now, protections);
    kept.retain(|holder| !is_ended(holder));
    let mut line = admission::line(&document, &kept, None, now);
    line.retain(|entry| entry.value != *value);
    let room = Room { kept, is_open, asker: None, now, protections };
    (Some(room.filled(document, line)), true)
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
            // The holder's own entry is not live.
            let head = document.queue.entries().find(|entry| entry.is_live(&document, now));
            if let Some(id) = head.map(|entry| entry.id.clone()) {
                document.promoted = Some(Promoted::Recheck { id });
            }
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
