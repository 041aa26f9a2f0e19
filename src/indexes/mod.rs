//! The two indexes without which nothing is safe: what there is, what is to be done, and doing it.
//!
//! A [`LeaseManager`](crate::LeaseManager) verifies them when it is built, and makes none unasked. They are made by the
//! binary `mongo-lease-migrate`, by [`ensure_indexes`](crate::LeaseManagerBuilder::ensure_indexes), or with a plan:
//!
//! ```no_run
//! # async fn example(database: mongo_lease::mongodb::Database) -> mongo_lease::Result<()> {
//! let plan = mongo_lease::indexes::plan(&database, "locks").await?;
//! println!("{plan}");
//! plan.apply(|_progress| ()).await?;
//! # Ok(())
//! # }
//! ```

mod apply;
mod difference;
mod obstacle;
mod step;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use mongodb::Database;
use mongodb::bson::Document;
use mongodb::error::{Error as DriverError, ErrorKind};

use crate::commands::Command;
use crate::commands::failure::{Cause, Failure};
use crate::commands::indexes::{
    Duplicates, FoundIndex, Holders, ListIndexes, LookAtCollection, WireVersion,
};
use crate::error::{Error, Result};
use crate::retry::{self, RetryPolicy};
use crate::runner::Runner;

pub use apply::Progress;
pub use obstacle::{DuplicateName, Obstacle, ObstacleKind};
pub use step::{Step, StepKind};

use difference::{Difference, Found};

/// How long a look at the indexes is waited for.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);
/// How long the search for duplicates may take, which reads the whole collection.
const SEARCH_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// How many names with duplicates are listed, and how many documents of each.
const LISTED_MAX: i64 = 20;
/// How many commands of a plan are under way at once: one, and a look at how far it is.
const IN_FLIGHT_MAX: usize = 4;

/// What is to be done to a collection so that leases in it are safe: the difference between the two indexes that it
/// must have and those that it has.
///
/// It says what was found when it was made, and changes nothing until it is [applied](IndexPlan::apply).
pub struct IndexPlan {
    runner: Runner,
    collection: String,
    difference: Difference,
}

/// Makes a plan for a collection. Nothing is changed.
///
/// Where a unique index is to be made, it reads the whole collection in search of names that two documents have.
///
/// # Errors
///
/// [`Error::MissingPrivilege`] when the user may not look (`listCollections`, `listIndexes`; `find` for the search);
/// [`Error::MongoDb`] or [`Error::Unknown`] when the database does not answer or refuses.
///
/// # Cancel safety
///
/// Dropping the future changes nothing.
pub async fn plan(database: &Database, collection: &str) -> Result<IndexPlan> {
    let runner = Runner::new(database.clone(), collection, IN_FLIGHT_MAX)?;
    let difference = look(&runner, collection).await?;
    Ok(IndexPlan { runner, collection: collection.to_owned(), difference })
}

/// The commands that set up a collection which has none of the indexes, as documents for `runCommand`.
#[must_use]
pub fn commands(collection: &str) -> Vec<Document> {
    let nothing = Found { collection: None, indexes: &[], wire_version: i32::MAX };
    let steps = difference::difference(collection, &nothing).steps;
    steps.iter().flat_map(|step| step.commands(collection)).collect()
}

/// Makes the collection and its indexes, where they are missing and nothing stands in the way. What would change an
/// index that is there is left to those who read a plan first.
pub(crate) async fn ensure(database: &Database, collection: &str) -> Result<()> {
    let plan = plan(database, collection).await?;
    if let Some(step) = plan.steps().iter().find(|step| step.changes_existing()) {
        return Err(not_migrated(&plan.runner, collection, step.problem()));
    }
    plan.apply(|_progress| ()).await
}

/// An error unless both indexes are there, and are what they have to be.
pub(crate) async fn verify(runner: &Runner, collection: &str, policy: RetryPolicy) -> Result<()> {
    let indexes = match list(runner, collection, policy).await {
        Ok(indexes) => indexes,
        Err(failure) => {
            let Some(problem) = no_collection(&failure, collection) else {
                return Err(explain(failure, "listIndexes", runner, collection));
            };
            return Err(not_migrated(runner, collection, problem));
        }
    };
    let found = Found { collection: None, indexes: &indexes, wire_version: i32::MAX };
    let difference = difference::difference(collection, &found);
    match difference.problem() {
        None => Ok(()),
        Some(problem) => Err(not_migrated(runner, collection, problem)),
    }
}

impl IndexPlan {
    /// The database.
    #[must_use]
    pub fn database(&self) -> &str {
        self.runner.database().name()
    }

    /// The collection.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// What is to be done, in this order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.difference.steps
    }

    /// What stands in the way until a person has decided about it. While there is anything, nothing is changed.
    #[must_use]
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.difference.obstacles
    }

    /// What was seen besides, and does not stand in the way.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.difference.notes
    }

    /// Whether both indexes are there, and are what they have to be.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.steps().is_empty() && self.obstacles().is_empty()
    }
}

impl fmt::Debug for IndexPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the client: its options have the password.
        formatter
            .debug_struct("IndexPlan")
            .field("database", &self.database())
            .field("collection", &self.collection)
            .field("difference", &self.difference)
            .finish_non_exhaustive()
    }
}

/// For people: a line for each obstacle, step and note.
impl fmt::Display for IndexPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (database, collection) = (self.database(), &self.collection);
        if self.is_up_to_date() {
            write!(formatter, "{database}.{collection} has both indexes")?;
        } else {
            write!(formatter, "{database}.{collection} is not set up for leases:")?;
        }
        for obstacle in self.obstacles() {
            write!(formatter, "\n  in the way: {obstacle}")?;
        }
        for step in self.steps() {
            write!(formatter, "\n  to do: {step}")?;
        }
        self.notes().iter().try_for_each(|note| write!(formatter, "\n  note: {note}"))
    }
}

/// Looks at everything that a plan is made from.
async fn look(runner: &Runner, collection: &str) -> Result<Difference> {
    let wire_version = read(runner, WireVersion).await?;
    let command = LookAtCollection { collection: collection.to_owned() };
    let stands_there = read(runner, command)
        .await
        .map_err(|failure| explain(failure, "listCollections", runner, collection))?;
    let policy = look_limits(LOOK_DEADLINE);
    let indexes = match list(runner, collection, policy).await {
        Ok(indexes) => indexes,
        // What it is instead of a collection, the other look has told.
        Err(failure) if no_collection(&failure, collection).is_some() => Vec::new(),
        Err(failure) => return Err(explain(failure, "listIndexes", runner, collection)),
    };
    let found = Found { collection: stands_there.as_ref(), indexes: &indexes, wire_version };
    let mut difference = difference::difference(collection, &found);
    if stands_there.is_some() && difference.makes_unique() {
        difference.obstacles.extend(duplicates(runner, collection).await?);
    }
    Ok(difference)
}

/// Finds names that more than one document has.
async fn duplicates(runner: &Runner, collection: &str) -> Result<Option<Obstacle>> {
    let explained = |failure| explain(failure, "find", runner, collection);
    let command = Duplicates { collection: collection.to_owned(), listed_max: LISTED_MAX };
    let policy = look_limits(SEARCH_DEADLINE);
    let found = retry::run(runner, command, policy).await.map_err(explained)?.reply;
    let mut names = Vec::new();
    for (name, documents) in found.names {
        let collection = collection.to_owned();
        let command = Holders { collection, name: name.clone(), limit: LISTED_MAX };
        let holders = read(runner, command).await.map_err(explained)?;
        names.push(DuplicateName::new(&name, documents, holders));
    }
    Ok(Obstacle::duplicates(found.total, names))
}

/// Lists the indexes; which of them are still being built, where the server tells.
async fn list(
    runner: &Runner,
    collection: &str,
    policy: RetryPolicy,
) -> Result<Vec<FoundIndex>, Failure> {
    let collection = collection.to_owned();
    let command = ListIndexes { collection: collection.clone(), tells_builds: true };
    let refused = match retry::run(runner, command, policy).await {
        Ok(answer) => return Ok(answer.reply),
        Err(failure) => failure,
    };
    match refused.server_code() {
        // The strict Stable API knows no such option, nor do servers that are not MongoDB.
        Some(code) if !LIST_CODES.contains(&code) => {
            let command = ListIndexes { collection, tells_builds: false };
            Ok(retry::run(runner, command, policy).await?.reply)
        }
        Some(_) | None => Err(refused),
    }
}

async fn read<C: Command + Clone>(runner: &Runner, command: C) -> Result<C::Reply, Failure> {
    Ok(retry::run(runner, command, look_limits(LOOK_DEADLINE)).await?.reply)
}

fn look_limits(attempt: Duration) -> RetryPolicy {
    RetryPolicy::one_attempt(attempt)
}

/// Atlas has its own word for it.
fn is_unauthorized(error: &DriverError) -> bool {
    const ATLAS_ERROR: i32 = 8_000;
    let ErrorKind::Command(command) = error.kind.as_ref() else { return false };
    command.code == UNAUTHORIZED
        || command.code == ATLAS_ERROR && command.message.contains("not allowed")
}

const UNAUTHORIZED: i32 = 13;
const NAMESPACE_NOT_FOUND: i32 = 26;
const IS_A_VIEW: i32 = 166;
/// What a listing is refused for whatever it asks.
const LIST_CODES: [i32; 3] = [UNAUTHORIZED, NAMESPACE_NOT_FOUND, IS_A_VIEW];

/// Why there are no indexes to list, if it is for want of a collection.
fn no_collection(failure: &Failure, collection: &str) -> Option<String> {
    match failure.server_code() {
        Some(NAMESPACE_NOT_FOUND) => Some(format!("the collection `{collection}` does not exist")),
        Some(IS_A_VIEW) => Some(format!("`{collection}` is a view and no collection")),
        Some(_) | None => None,
    }
}

/// The error for a failure of a command that needs this privilege.
fn explain(failure: Failure, privilege: &'static str, runner: &Runner, collection: &str) -> Error {
    if let Cause::Driver(source) = &failure.cause
        && is_unauthorized(source)
    {
        let namespace = format!("{}.{collection}", runner.database().name());
        return Error::MissingPrivilege { privilege, namespace, source: source.clone() };
    }
    failure.into()
}

fn not_migrated(runner: &Runner, collection: &str, problem: String) -> Error {
    let database = runner.database().name().to_owned();
    Error::NotMigrated { problem, database, collection: collection.to_owned() }
}
