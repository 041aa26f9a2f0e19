//! Finds out why a command that names a grant matched nothing.

use mongo_lease_core::commands::{FindHolders, FindLeases, GrantKey};
use mongo_lease_core::info::LeaseState;

use super::loss::{loss_of, share_of};
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
