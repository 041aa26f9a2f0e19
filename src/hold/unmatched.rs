//! Why a command that names a grant did not match.

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

/// Why a command that names a grant did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// The grant is not there.
    Lost(LostReason),
    /// It is there, and its expiry is of this type.
    Damaged(String),
    /// It is there, and as it should be. So the command asked for more, or looked at another time.
    Present,
}

/// Reads the lease, and says why a command that names this grant did not match.
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

/// Why a grant is not there any more, or nothing when it is.
pub(super) fn loss_of(key: &GrantKey, found: Option<&LeaseSnapshot>) -> Option<LostReason> {
    let Some(seen) = found else {
        return Some(LostReason::Removed);
    };
    // It was let go, and its document has outlived that: also where the name is kept for a while.
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
