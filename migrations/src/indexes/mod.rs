//! Index plans: what is to be done to a collection before leases can be kept in it, and doing it.
//!
//! The library verifies the indexes, and says what is wrong ([`mongo_lease::indexes::problems`]). A plan says what to
//! do about that, and what only a person can decide:
//!
//! ```no_run
//! use mongo_lease_migrations::indexes;
//!
//! # async fn example(database: mongodb::Database) -> indexes::Result<()> {
//! let plan = indexes::plan(&database, "locks").await?;
//! println!("{plan}");
//! plan.apply(|_progress| ()).await?;
//! # Ok(())
//! # }
//! ```

mod apply;
mod commands;
mod difference;
mod error;
mod holder;
mod obstacle;
mod sender;
mod step;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use mongo_lease::indexes::SPECS;
use mongodb::Database;
use mongodb::bson::Document;

pub use apply::Progress;
pub use error::{Error, Result};
pub use holder::Holder;
pub use obstacle::{DuplicateName, Obstacle, ObstacleKind};
pub use step::{Step, StepKind};

use difference::{Difference, Found, difference};
use error::{Failure, IS_A_VIEW, NAMESPACE_NOT_FOUND, UNAUTHORIZED};
use sender::ask;

/// How long a look at the indexes is waited for.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);
/// How long the search for duplicates may take, which reads the whole collection.
const SEARCH_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// How many names with duplicates are listed, and how many documents of each.
const LISTED_MAX: i64 = 20;

/// What is to be done to a collection so that leases in it are safe: the difference between the two indexes that it
/// must have and those that it has.
///
/// It says what was found when it was made, and changes nothing until it is [applied](IndexPlan::apply).
pub struct IndexPlan {
    database: Database,
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
    let difference = look(database, collection).await?;
    let (database, collection) = (database.clone(), collection.to_owned());
    Ok(IndexPlan { database, collection, difference })
}

/// The commands that set up a collection which has none of the indexes, as documents for `runCommand`.
#[must_use]
pub fn commands(collection: &str) -> Vec<Document> {
    SPECS.iter().map(|spec| spec.create_command(collection, spec.name)).collect()
}

impl IndexPlan {
    /// The database.
    #[must_use]
    pub fn database(&self) -> &str {
        self.database.name()
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

    /// What is wrong, in the words of the error with which a manager refuses; `None` when nothing is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.difference.problem()
    }

    /// Whether both indexes are there, and are what they have to be.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.steps().is_empty() && self.obstacles().is_empty()
    }

    fn namespace(&self) -> String {
        format!("{}.{}", self.database(), self.collection)
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
async fn look(database: &Database, collection: &str) -> Result<Difference> {
    let namespace = format!("{}.{collection}", database.name());
    let version = |reply: &Document| Some(commands::read_wire_version(reply));
    let wire_version = ask(database, commands::hello(), LOOK_DEADLINE, version).await?;
    let command = commands::list_collection(collection);
    let stands_there = ask(database, command, LOOK_DEADLINE, commands::read_collection)
        .await
        .map_err(|failure| failure.explain("listCollections", &namespace))?;
    let indexes = match list(database, collection).await {
        Ok(indexes) => indexes,
        // What it is instead of a collection, the other look has told.
        Err(failure) if is_no_collection(&failure) => Vec::new(),
        Err(failure) => return Err(failure.explain("listIndexes", &namespace)),
    };
    let found = Found { collection: stands_there.as_ref(), indexes: &indexes, wire_version };
    let mut difference = difference(collection, &found);
    if stands_there.is_some() && difference.makes_unique() {
        let found = duplicates(database, collection).await;
        difference.obstacles.extend(found.map_err(|it| it.explain("find", &namespace))?);
    }
    Ok(difference)
}

/// Finds names that more than one document has.
async fn duplicates(database: &Database, collection: &str) -> Result<Option<Obstacle>, Failure> {
    let command = commands::find_duplicates(collection, LISTED_MAX);
    let found = ask(database, command, SEARCH_DEADLINE, commands::read_duplicates).await?;
    let mut names = Vec::new();
    for (name, documents) in found.names {
        let command = holder::find(collection, &name, LISTED_MAX);
        let holders = ask(database, command, LOOK_DEADLINE, holder::read).await?;
        names.push(DuplicateName::new(&name, documents, holders));
    }
    Ok(Obstacle::duplicates(found.total, names))
}

/// Lists the indexes; which of them are still being built, where the server tells.
async fn list(database: &Database, collection: &str) -> Result<Vec<Document>, Failure> {
    // A collection has 64 indexes at most: one batch.
    let read =
        |reply: &Document| Some(commands::first_batch(reply)?.into_iter().cloned().collect());
    let command = commands::list_indexes(collection, true);
    match ask(database, command, LOOK_DEADLINE, read).await {
        // The strict Stable API knows no such option, nor do servers that are not MongoDB.
        Err(failure) if failure.server_code().is_some_and(|code| !LIST_CODES.contains(&code)) => {
            let command = commands::list_indexes(collection, false);
            ask(database, command, LOOK_DEADLINE, read).await
        }
        listed => listed,
    }
}

/// What a listing is refused for whatever it asks.
const LIST_CODES: [i32; 3] = [UNAUTHORIZED, NAMESPACE_NOT_FOUND, IS_A_VIEW];

fn is_no_collection(failure: &Failure) -> bool {
    matches!(failure.server_code(), Some(NAMESPACE_NOT_FOUND | IS_A_VIEW))
}
