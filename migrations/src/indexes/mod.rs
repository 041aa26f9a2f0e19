//! Plans and applies the index changes that a collection needs before it can hold leases.
//!
//! The library verifies the indexes and reports problems ([`mongo_lease::indexes::problems`]). A plan says how to solve
//! them, and which decisions need a person:
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

use commands::FoundCollection;
use difference::{Difference, Found, difference};
use error::{API_STRICT, Failure, IS_A_VIEW, NAMESPACE_NOT_FOUND, UNAUTHORIZED};
use sender::ask;

/// The time limit of one read of the indexes.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);
/// The time limit of a search for documents, which reads the whole collection.
const SEARCH_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of listed names with duplicates, and of listed documents for each.
const LISTED_MAX: i64 = 20;

/// The changes that make a collection safe for leases.
///
/// It is the difference between the two required indexes and the existing ones.
///
/// It describes the state at the time of planning, and changes nothing until it is [applied](IndexPlan::apply).
pub struct IndexPlan {
    database: Database,
    collection: String,
    difference: Difference,
}

/// Makes a plan for a collection. Changes nothing.
///
/// It reads the whole collection to find documents of another format, and, if a unique index is to be created, names
/// that two documents have. Without the privilege `find` it does not look for the former.
///
/// # Errors
///
/// [`Error::MissingPrivilege`] if the user lacks `listCollections`, `listIndexes`, or `find` for the search;
/// [`Error::MongoDb`] or [`Error::Unknown`] if the database does not answer or refuses.
///
/// # Cancel safety
///
/// Dropping the future changes nothing.
pub async fn plan(database: &Database, collection: &str) -> Result<IndexPlan> {
    let difference = look(database, collection, Needs::Everything).await?;
    let (database, collection) = (database.clone(), collection.to_owned());
    Ok(IndexPlan { database, collection, difference })
}

/// Examines a collection as a service's user may, who lacks `listCollections`. Changes nothing.
///
/// Without that privilege it cannot tell a capped collection from another one. Otherwise the result is that of
/// [`plan`].
///
/// # Errors
///
/// Those of [`plan`], without `listCollections`.
///
/// # Cancel safety
///
/// Dropping the future changes nothing.
pub async fn examine(database: &Database, collection: &str) -> Result<IndexPlan> {
    let difference = look(database, collection, Needs::IndexesAlone).await?;
    let (database, collection) = (database.clone(), collection.to_owned());
    Ok(IndexPlan { database, collection, difference })
}

/// The commands for a collection without any of the indexes, as documents for `runCommand`.
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

    /// The steps to take, in this order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.difference.steps
    }

    /// The obstacles that need a person's decision. While there are any, nothing is changed.
    #[must_use]
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.difference.obstacles
    }

    /// Other observations, which do not prevent the plan.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.difference.notes
    }

    /// The problem, as in the error with which a manager refuses; `None` if there is none.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.difference.problem()
    }

    /// Whether both indexes exist and match their specifications.
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
        // Nothing of the client: its options contain the password.
        formatter
            .debug_struct("IndexPlan")
            .field("database", &self.database())
            .field("collection", &self.collection)
            .field("difference", &self.difference)
            .finish_non_exhaustive()
    }
}

/// Prints a line for each obstacle, step and note.
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

/// How much a user must be able to see.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// All that a change depends on.
    Everything,
    /// The indexes, which a service's user sees.
    IndexesAlone,
}

/// Reads everything that a plan is made from.
async fn look(database: &Database, collection: &str, needs: Needs) -> Result<Difference> {
    let namespace = format!("{}.{collection}", database.name());
    let version = |reply: &Document| Some(commands::read_wire_version(reply));
    let wire_version = ask(database, commands::hello(), LOOK_DEADLINE, version).await?;
    let command = commands::list_collection(collection);
    let stands_there = ask(database, command, LOOK_DEADLINE, commands::read_collection).await;
    let is_hidden = matches!(&stands_there, Err(failure) if failure.is_unauthorized());
    let (stands_there, listed) = if is_hidden && needs == Needs::IndexesAlone {
        let listed = list(database, collection).await;
        (seen_in_listing(&listed), listed)
    } else {
        let found = stands_there.map_err(|it| it.explain("listCollections", &namespace))?;
        (found, list(database, collection).await)
    };
    let indexes = match listed {
        Ok(indexes) => indexes,
        // The object is known, and has no indexes.
        Err(failure) if is_no_collection(&failure) => Vec::new(),
        Err(failure) => return Err(failure.explain("listIndexes", &namespace)),
    };
    let found = Found { collection: stands_there.as_ref(), indexes: &indexes, wire_version };
    let mut difference = difference(collection, &found);
    if difference.converts_to_unique() && refuses_conversion(database, collection).await {
        difference.refuse_conversion(collection);
    }
    if stands_there.is_some() && difference.makes_unique() {
        let found = duplicates(database, collection).await;
        difference.obstacles.extend(found.map_err(|it| it.explain("find", &namespace))?);
    }
    if stands_there.is_some_and(|found| found.kind == "collection") {
        let command = commands::find_other_format(collection, LISTED_MAX);
        match ask(database, command, SEARCH_DEADLINE, commands::read_other_format).await {
            Ok((total, names)) => {
                difference.obstacles.extend(Obstacle::other_format(total, &names));
            }
            // A user who may only make indexes makes them all the same.
            Err(failure) => difference.notes.push(format!(
                "the format of the documents was not checked: {}",
                failure.explain("find", &namespace)
            )),
        }
    }
    Ok(difference)
}

/// The object that has the collection's name, as far as the listing of its indexes tells. A capped collection looks
/// like another one.
fn seen_in_listing(listed: &Result<Vec<Document>, Failure>) -> Option<FoundCollection> {
    let kind = match listed {
        Ok(_) => "collection",
        Err(failure) if failure.server_code() == Some(IS_A_VIEW) => "view",
        Err(_) => return None,
    };
    Some(FoundCollection { kind: kind.to_owned(), is_capped: false })
}

/// Whether the server refuses to make an index unique for this client: MongoDB 7.0 does under the strict Stable API.
/// Any other refusal is left to the step itself.
async fn refuses_conversion(database: &Database, collection: &str) -> bool {
    let command = commands::prepare_no_index(collection);
    let asked = ask(database, command, LOOK_DEADLINE, |_reply| Some(())).await;
    asked.is_err_and(|failure| failure.server_code() == Some(API_STRICT))
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

/// Lists the indexes, and marks those still being built if the server tells.
async fn list(database: &Database, collection: &str) -> Result<Vec<Document>, Failure> {
    // A collection has at most 64 indexes: one batch.
    let read =
        |reply: &Document| Some(commands::first_batch(reply)?.into_iter().cloned().collect());
    let command = commands::list_indexes(collection, true);
    match ask(database, command, LOOK_DEADLINE, read).await {
        // The strict Stable API does not know this option, nor do servers that are not MongoDB.
        Err(failure) if failure.server_code().is_some_and(|code| !LIST_CODES.contains(&code)) => {
            let command = commands::list_indexes(collection, false);
            ask(database, command, LOOK_DEADLINE, read).await
        }
        listed => listed,
    }
}

/// The errors that another form of `listIndexes` would not avoid.
const LIST_CODES: [i32; 3] = [UNAUTHORIZED, NAMESPACE_NOT_FOUND, IS_A_VIEW];

fn is_no_collection(failure: &Failure) -> bool {
    matches!(failure.server_code(), Some(NAMESPACE_NOT_FOUND | IS_A_VIEW))
}
