//! Creates the collection and its indexes where they are missing. Several processes may run this at once.

use std::time::Duration;

use mongo_lease_core::commands::{CountDuplicates, CreateIndex, FoundCollection, LookAtCollection};
use mongo_lease_core::rules::{Advice, RETRY};

use super::problem::{IndexProblem, problems, text};
use super::{explain, list, no_collection, not_migrated};
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::retry::{self, RetryPolicy};
use crate::runner::{Backend, Runner};

/// The time limit of one read of the indexes.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);
/// The time limit of the search for duplicates, which reads the whole collection.
const SEARCH_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// The time limit of one index build. A build on a large collection takes hours, and giving up gains nothing.
const BUILD_DEADLINE: Duration = Duration::from_secs(14 * 24 * 3600);
/// The maximum number of concurrent commands. There is only one, but fewer than four slots would shorten its time.
const IN_FLIGHT_MAX: usize = 4;
/// How often to read again after another process was faster, or after a failover.
const ROUNDS_MAX: usize = 20;
/// DuplicateKey: two documents have the same name.
const DUPLICATE_KEY: i32 = 11_000;

/// Creates the collection and its missing indexes, and verifies them. It changes no existing index: a migration does,
/// after a person has read the plan.
pub(crate) async fn ensure(backend: &Backend, collection: &str) -> Result<()> {
    let runner = Runner::new(backend.clone(), collection, IN_FLIGHT_MAX)?;
    let mut delays = runner.clock().jittered(RETRY);
    let mut last = None;
    for _ in 0..ROUNDS_MAX {
        let found = inspect(&runner).await?;
        if let Some(problem) = text(found.iter().filter(|it| !it.is_to_be_created())) {
            return Err(not_migrated(&runner, problem));
        }
        if found.is_empty() {
            return Ok(());
        }
        let Err(failure) = create(&runner, &found).await else { continue };
        if failure.server_code() == Some(DUPLICATE_KEY)
            && let Some(problem) = duplicates(&runner).await?
        {
            let missing = text(&found).unwrap_or_default();
            return Err(not_migrated(&runner, format!("{problem}; {missing}")));
        }
        if !may_look_again(&failure) {
            return Err(explain(failure, "createIndex", &runner));
        }
        last = Some(failure);
        runner.clock().sleep(delays.next().unwrap_or(RETRY.longest)).await;
    }
    let problem = "another process keeps changing the indexes".to_owned();
    Err(last.map_or_else(|| not_migrated(&runner, problem), Error::from))
}

/// Reads the problems of the indexes. Fails if the name cannot hold leases, as a view cannot.
async fn inspect(runner: &Runner) -> Result<Vec<IndexProblem>> {
    let found = retry::run(runner, LookAtCollection, one_attempt(runner, LOOK_DEADLINE)).await;
    let found = found.map_err(|failure| explain(failure, "listCollections", runner))?.reply;
    if let Some(kind) = found.as_ref().and_then(not_a_collection) {
        return Err(not_migrated(runner, format!("`{}` is {kind}", runner.collection())));
    }
    match list(runner, one_attempt(runner, LOOK_DEADLINE)).await {
        Ok(indexes) => Ok(problems(&indexes)),
        Err(failure) if no_collection(&failure, runner.collection()).is_some() => Ok(problems(&[])),
        Err(failure) => Err(explain(failure, "listIndexes", runner)),
    }
}

/// The kind of object that has the collection's name but cannot have the indexes.
fn not_a_collection(found: &FoundCollection) -> Option<&str> {
    match (found.kind.as_str(), found.is_capped) {
        ("collection", false) => None,
        ("collection", true) => Some("a capped collection, where TTL indexes remove nothing"),
        ("view", _) => Some("a view"),
        ("timeseries", _) => Some("a time-series collection"),
        (other, _) => Some(other),
    }
}

/// Creates the missing indexes, and waits for those that are being built.
async fn create(runner: &Runner, missing: &[IndexProblem]) -> Result<(), Failure> {
    for IndexProblem { spec, index, .. } in missing {
        let command = CreateIndex { name: index.clone(), spec: *spec };
        retry::run_once(runner, command, runner.clock().now().after(BUILD_DEADLINE)).await?;
    }
    Ok(())
}

/// Reports names that have more than one document, if any exist.
async fn duplicates(runner: &Runner) -> Result<Option<String>> {
    let counted = retry::run(runner, CountDuplicates, one_attempt(runner, SEARCH_DEADLINE)).await;
    let names = match counted.map_err(|it| explain(it, "find", runner))?.reply {
        0 => return Ok(None),
        1 => "1 name has".to_owned(),
        names => format!("{names} names have"),
    };
    Ok(Some(format!("{names} more than one document, so `name` cannot be unique")))
}

fn one_attempt(runner: &Runner, attempt: Duration) -> RetryPolicy {
    RetryPolicy::one_attempt(runner.clock().now(), attempt)
}

/// Whether another read of the indexes may show success or an obstacle. Without a server it cannot: the driver has
/// already waited for one for as long as it is configured to.
pub(super) fn may_look_again(failure: &Failure) -> bool {
    match failure.server_code() {
        _ if failure.is_out_of_reach() => false,
        // NamespaceNotFound, IndexNotFound, NamespaceExists, IndexAlreadyExists, IndexOptionsConflict,
        // IndexKeySpecsConflict, ConflictingOperationInProgress, IndexBuildAborted.
        Some(26 | 27 | 48 | 68 | 85 | 86 | 117 | 276) => true,
        Some(_) | None => failure.outcome.advice == Advice::Retry,
    }
}
