//! Renew in shared use: prolongs grants, each of which it names.

use super::document::{Document, Expiry};
use super::holders::{DamagedHolder, HolderElement};
use super::protections::Protections;
use super::types::Types;

/// Prolongs each of these grants for its time from now, and says whether all of them were there. Otherwise it changes
/// nothing. The time comes with the command, as for an exclusive grant.
///
/// The answer to an update counts documents, and not holders. So a process that has several grants of one lease must
/// not be told that its renewal matched while one of them is gone.
///
/// A grant that has expired is still there while no write has removed it, as an exclusive one is.
pub fn renew_holders<T: Types>(
    found: Option<Document<T>>,
    grants: &[(T::GrantId, i64)],
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let Some(document) = found else {
        return (None, false);
    };
    let Expiry::At(expiry) = document.expiry else {
        return (Some(document), false);
    };
    let is_there = |id: &T::GrantId| {
        let is_it = |element: &HolderElement<T>| element.shown().1 == Some(id);
        document.holders.elements().iter().any(is_it)
    };
    let matches = document.is_in_shared_use()
        && document.holders.are_dated()
        && !grants.is_empty()
        && grants.iter().all(|(id, _)| is_there(id));
    if !matches {
        return (Some(document), false);
    }
    let prolonged = |old: i64, stored: i64, lasts: i64| {
        let lasts = protections.renewed_for(stored, lasts);
        protections.permit_renewed(old, now.saturating_add(lasts))
    };
    let mut holders = document.holders.clone();
    for element in holders.elements_mut() {
        let shown = element.shown().1;
        let Some(&(_, lasts)) = grants.iter().find(|(id, _)| Some(id) == shown) else {
            continue;
        };
        match element {
            HolderElement::Holder(holder) => {
                let stored = holder.ttl.saturating_add(holder.max_clock_skew);
                holder.expires_at = prolonged(holder.expires_at, stored, lasts);
                holder.sent = sent;
            }
            HolderElement::Damaged(DamagedHolder { expires_at: Some(at), .. }) => {
                *at = prolonged(*at, 0, lasts);
            }
            HolderElement::Damaged(_) => {}
        }
    }
    let latest = holders.latest_expiry().unwrap_or(expiry);
    let expiry = Expiry::At(protections.permit_renewed(expiry, latest));
    (Some(Document { expiry, holders, ..document }), true)
}
