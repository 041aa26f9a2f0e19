//! Start: sends a manager's first command, which finds the server or says why there is none.

use std::time::Duration;

use mongo_lease_core::commands::{Hello, Topology};
use mongo_lease_core::rules::REFUSED;

use crate::error::{Error, Result};
use crate::failure::{Cause, Failure};
use crate::retry::{self, RetryPolicy};
use crate::runner::Runner;

/// The server's answer to `hello`. It fails with the first attempt for which the driver finds no server: the client's
/// options say how long that takes, and the error says why.
pub(super) async fn find_server(
    runner: &Runner,
    policy: RetryPolicy,
    build_deadline: Duration,
) -> Result<Topology> {
    let found = retry::run_unless(runner, Hello, policy, Failure::is_out_of_reach).await;
    found.map(|answer| answer.reply).map_err(|failure| not_found(failure, build_deadline))
}

fn not_found(mut failure: Failure, build_deadline: Duration) -> Error {
    // A `hello` writes nothing, even if an attempt of it is still under way.
    failure.outcome.maybe_applied = false;
    if failure.is_out_of_reach() {
        failure.outcome = REFUSED;
    }
    if !matches!(failure.cause, Cause::Deadline | Cause::NotSent) {
        return failure.into();
    }
    // A deadline that passed says nothing except how long it was.
    let waited = format!("within {build_deadline:?} (`build_deadline`)");
    Error::Unknown { reason: format!("the database did not answer {waited}"), source: None }
}
