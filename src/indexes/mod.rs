//! The two required indexes: their specifications, and the problems of existing ones.
//!
//! A [`LeaseManager`](crate::LeaseManager) verifies the indexes when it is built, and creates none by default. With
//! [`ensure_indexes`](crate::LeaseManagerBuilder::ensure_indexes) it creates missing ones and changes none. The binary
//! `mongo-lease-migrate` creates missing ones, and asks before it changes an existing one. Your own migration creates
//! them from their specifications:
//!
//! ```no_run
//! use mongo_lease::indexes::SPECS;
//!
//! # async fn example(database: mongo_lease::mongodb::Database) -> mongo_lease::mongodb::error::Result<()> {
//! for spec in SPECS {
//!     database.run_command(spec.create_command("locks", spec.name)).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod ensure;
mod problem;
#[cfg(test)]
mod tests;

use mongo_lease_core::commands::{FindOtherFormat, FoundIndex, ListIndexes, read_index};
use mongo_lease_core::rules::FORMAT_TIMEOUT;
use mongodb::bson::Document;
use mongodb::error::{Error as DriverError, ErrorKind};

use crate::error::{Error, Result};
use crate::failure::{Cause, Failure};
use crate::retry::{self, RetryPolicy};
use crate::runner::Runner;

pub(crate) use ensure::ensure;

pub use mongo_lease_core::schema::{IndexSpec, SPECS};
#[doc(hidden)]
pub use problem::{IndexProblem, IndexProblemKind};

/// Lists the problems of a collection's indexes. Sends nothing to a database. For the migrations package.
///
/// `listed` has the entries of the reply to `listIndexes`. With the option `includeBuildUUIDs`, an index that is still
/// being built is reported as a problem too; without it, the server lists such an index as if it were ready. For a
/// collection that does not exist, `listed` is empty.
#[doc(hidden)]
#[must_use]
pub fn problems(listed: &[Document]) -> Vec<IndexProblem> {
    problem::problems(&listed.iter().map(read_index).collect::<Vec<_>>())
}

/// Fails unless both indexes exist and match their specifications.
pub(crate) async fn verify(runner: &Runner, policy: RetryPolicy) -> Result<()> {
    let problem = match list(runner, policy).await {
        Ok(indexes) => problem::text(&problem::problems(&indexes)),
        Err(failure) => match no_collection(&failure, runner.collection()) {
            None => return Err(explain(failure, "listIndexes", runner)),
            problem => problem,
        },
    };
    problem.map_or(Ok(()), |problem| Err(not_migrated(runner, problem)))
}

/// Fails if the collection has documents of another format. It goes on where the search is not answered in time,
/// because the documents of a large collection are not read for each process that starts. The migration searches for
/// as long as it takes.
pub(crate) async fn check_format(runner: &Runner, policy: RetryPolicy) -> Result<()> {
    let deadline = policy.deadline.min(runner.clock().now().after(FORMAT_TIMEOUT));
    let found = retry::run_once(runner, FindOtherFormat, deadline).await;
    let Some(field) = found.ok().flatten() else { return Ok(()) };
    let collection = runner.collection();
    let problem = format!(
        "the collection `{collection}` has documents in an unsupported format (field `{field}`): \
         stop the programs that write it, and delete these documents; they are leases only, and \
         nothing else is lost"
    );
    Err(not_migrated(runner, problem))
}

/// Lists the indexes, and marks those still being built if the server tells.
async fn list(runner: &Runner, policy: RetryPolicy) -> Result<Vec<FoundIndex>, Failure> {
    let command = ListIndexes { tells_builds: true };
    let mut answer = retry::run(runner, command, policy).await;
    // The strict Stable API does not know this option, nor do servers that are not MongoDB.
    if let Err(refused) = &answer
        && refused.server_code().is_some_and(|code| !LIST_CODES.contains(&code))
    {
        answer = retry::run(runner, ListIndexes { tells_builds: false }, policy).await;
    }
    Ok(answer?.reply)
}

/// Whether the server denied access. Atlas uses a code of its own for this.
fn is_unauthorized(error: &DriverError) -> bool {
    const ATLAS_ERROR: i32 = 8_000;
    let ErrorKind::Command(command) = error.kind.as_ref() else { return false };
    command.code == UNAUTHORIZED
        || command.code == ATLAS_ERROR && command.message.contains("not allowed")
}

const UNAUTHORIZED: i32 = 13;
const NAMESPACE_NOT_FOUND: i32 = 26;
const IS_A_VIEW: i32 = 166;
/// The errors that another form of `listIndexes` would not avoid.
const LIST_CODES: [i32; 3] = [UNAUTHORIZED, NAMESPACE_NOT_FOUND, IS_A_VIEW];

/// Why there are no indexes to list: no collection, or a view.
fn no_collection(failure: &Failure, collection: &str) -> Option<String> {
    match failure.server_code() {
        Some(NAMESPACE_NOT_FOUND) => Some(format!("the collection `{collection}` does not exist")),
        Some(IS_A_VIEW) => Some(format!("`{collection}` is a view, not a collection")),
        Some(_) | None => None,
    }
}

/// The error for a failed command that needs this privilege.
fn explain(failure: Failure, privilege: &'static str, runner: &Runner) -> Error {
    if let Cause::Driver(source) = &failure.cause
        && is_unauthorized(source)
    {
        let namespace = format!("{}.{}", runner.database_name(), runner.collection());
        return Error::MissingPrivilege { privilege, namespace, source: source.clone() };
    }
    failure.into()
}

fn not_migrated(runner: &Runner, problem: String) -> Error {
    let database = runner.database_name().to_owned();
    Error::NotMigrated { problem, database, collection: runner.collection().to_owned() }
}
