//! Finds out why a command that names a grant matched nothing.

use crate::commands::failure::Failure;
use crate::commands::find::FindLeases;
use crate::commands::renew::GrantKey;
use crate::commands::snapshot::LeaseSnapshot;
use crate::error::LostReason;
use crate::info::LeaseState;
use crate::retry::{self, RetryPolicy};
use crate::rules::slots::Lane;
use crate::rules::tombstone::is_tombstone;
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

/// Reads the lease, and returns why a command that names this grant matched nothing.
pub(crate) async fn why_unmatched(
    runner: &Runner,
    key: &GrantKey,
    policy: RetryPolicy,
) -> Result<Unmatched, Failure> {
    let names = vec![key.name().to_owned()];
    let command = FindLeases { names, lane: Lane::Critical, after: None };
    let found = retry::run(runner, command, policy).await?.reply.into_iter().next();
    Ok(match (loss_of(key, found.as_ref()), found.map(|lease| lease.info.state)) {
        (Some(reason), _) => Unmatched::Lost(reason),
        (None, Some(LeaseState::Damaged { found })) => Unmatched::Damaged(found),
        (None, Some(LeaseState::Held | LeaseState::Free) | None) => Unmatched::Present,
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
        Some(grant_id) if grant_id == key.grant_id() => None,
        Some(grant_id) if grant_id.is_resumed() => Some(LostReason::Resumed),
        Some(_) | None => Some(LostReason::Removed),
    }
}
