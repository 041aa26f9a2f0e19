//! Finds out why a command that names a grant matched nothing.

use mongo_lease_core::commands::{
    FindHolders, FindLeases, GrantKey, LeaseSnapshot, SeenHolder, SharedSnapshot,
};
use mongo_lease_core::format;
use mongo_lease_core::info::LeaseState;
use mongo_lease_core::rules::{GrantId, is_tombstone};

use crate::error::LostReason;
use crate::failure::Failure;
use crate::retry::{self, RetryPolicy};
use crate::runner::Runner;

/// Why a command that names a grant matched nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// The grant does not exist any more.
    Lost(LostReason),
    /// The grant exists, and its expiry has this wrong BSON type.
    Damaged(String),
    /// The grant exists and is intact. So the command had a further condition, or ran at another time.
    Present,
}

/// Reads the lease, and returns why a command that names this grant matched nothing. Others may hold the lease too if
/// it `is_shared`.
pub(crate) async fn why_unmatched(
    runner: &Runner,
    key: &GrantKey,
    is_shared: bool,
    policy: RetryPolicy,
) -> Result<Unmatched, Failure> {
    let (loss, found) = if is_shared {
        let command = FindHolders { grants: vec![key.clone()] };
        let found = retry::run(runner, command, policy).await?.reply.into_iter().next();
        (share_of(key, found.as_ref()).err(), found.map(|found| found.lease))
    } else {
        let names = vec![key.name().to_owned()];
        let command = FindLeases { names, after: None };
        let found = retry::run(runner, command, policy).await?.reply.into_iter().next();
        (loss_of(key, found.as_ref()), found)
    };
    Ok(match (loss, found.map(|lease| lease.info.state)) {
        (Some(reason), _) => Unmatched::Lost(reason),
        (None, Some(LeaseState::Damaged { found })) => Unmatched::Damaged(found),
        (None, _) => Unmatched::Present,
    })
}

/// Why a grant does not exist any more; `None` if it exists.
pub(super) fn loss_of(key: &GrantKey, found: Option<&LeaseSnapshot>) -> Option<LostReason> {
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
    match &seen.grant_id {
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
pub(super) fn share_of<'a>(
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
