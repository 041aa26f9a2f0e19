//! The errors of calls that are not granted their leases.

use std::time::Duration;

use mongo_lease_core::info::{LeaseInfo, LeaseState};
use mongo_lease_core::rules::MAYBE_APPLIED;

use crate::error::{Error, Result};
use crate::failure::{Cause, Failure};

/// Returns an error when the lease document is corrupt: such a lease is never granted.
pub(super) fn check_sound(info: &LeaseInfo) -> Result<()> {
    if let LeaseState::Damaged { found } = &info.state {
        return Err(Error::damaged(&info.name, found.clone()));
    }
    Ok(())
}

/// Whether more time could have helped: the call failed because the database did not answer in time.
pub(super) fn could_more_time_help(error: &Error) -> bool {
    matches!(error, Error::MongoDb(_) | Error::Unknown { .. })
}

pub(super) fn no_answer() -> Error {
    Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline }.into()
}

/// The error of a call whose time is over.
pub(super) fn timeout(
    name: &str,
    waited: Duration,
    waited_for_turn: bool,
    held: Option<Box<LeaseInfo>>,
    source: Option<Error>,
) -> Error {
    let (name, source) = (name.to_owned(), source.map(Box::new));
    Error::WaitTimeout { name, waited, waited_for_turn, held, source }
}
