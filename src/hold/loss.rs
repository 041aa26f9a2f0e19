//! Why a lease is lost: by what a look at its document shows, and by the rules.

use mongo_lease_core::commands::{GrantKey, LeaseSnapshot, SeenHolder, SharedSnapshot};
use mongo_lease_core::format;
use mongo_lease_core::rules::{GrantId, Instant, Loss, is_tombstone};

use crate::error::LostReason;

/// Why a grant does not exist any more; `None` if it exists.
pub(crate) fn loss_of(key: &GrantKey, found: Option<&LeaseSnapshot>) -> Option<LostReason> {
    let Some(seen) = found else {
        return Some(LostReason::Removed);
    };
    // The lease was released, and its document was kept as a tombstone. `hold_at_least` also does this.
    if seen.info.value.as_deref().is_some_and(is_tombstone) {
        return Some(LostReason::Removed);
    }
    if seen.info.value.as_deref() != Some(key.value()) {
        return Some(LostReason::TakenOver { by: seen.info.owner.clone() });
    }
    match &seen.info.grant_id {
        Some(grant_id) if grant_id.as_str() == key.grant_id() => None,
        // A key with the id of no grant was made up, and nobody has resumed the lease with it.
        Some(grant_id)
            if grant_id.is_resumed() && GrantId::from(key.grant_id()).may_be_of(key.value()) =>
        {
            Some(LostReason::Resumed)
        }
        Some(_) | None => Some(LostReason::Removed),
    }
}

/// The holder that a grant of a lease that several hold belongs to, or why there is none.
pub(crate) fn share_of<'a>(
    key: &GrantKey,
    found: Option<&'a SharedSnapshot>,
) -> Result<&'a SeenHolder, LostReason> {
    let Some(found) = found else {
        return Err(LostReason::Removed);
    };
    let is_own = |holder: &&SeenHolder| {
        let id = holder.id.as_ref().map(|id| id.as_str());
        (holder.value.as_deref(), id) == (Some(key.value()), Some(key.grant_id()))
    };
    let value = found.lease.info.value.as_deref();
    let is_left = value == Some(format::SHARED_VALUE) || value.is_some_and(is_tombstone);
    found.holders.iter().find(is_own).ok_or_else(|| match is_left {
        true => LostReason::Removed,
        // All holders' time was over, and another holder has the whole lease.
        false => LostReason::TakenOver { by: found.lease.info.owner.clone() },
    })
}

/// The reason that a user is told. `found` is what a look has shown.
pub(crate) fn reason(loss: Loss, found: Option<LostReason>, now: Instant) -> LostReason {
    match loss {
        Loss::NotOurs => found.unwrap_or(LostReason::Removed),
        Loss::EndedAsAsked => LostReason::EndedAsAsked,
        Loss::NotRenewed(since) => {
            let stood_still = Some(now.since(since)).filter(|it| !it.is_zero());
            LostReason::NotRenewed { stood_still }
        }
        Loss::OutOfReach(since) => {
            LostReason::OutOfReach { since: now.since(since), last_error: None }
        }
    }
}
