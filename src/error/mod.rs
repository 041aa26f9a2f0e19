//! What can go wrong.

mod driver;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::commands::failure::{Cause, Failure};
use crate::info::human;
use crate::info::{LeaseInfo, LeaseState};

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
///
/// That a lease is held by somebody else is an error only where a call was told to wait for it, or to insist.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds the lease, and the call was not to wait.
    #[error("{}{}", .0, describe_own(.0))]
    Busy(Box<LeaseInfo>),

    /// The lease was not to be had in the time that the call was to wait.
    #[error("lease {name:?} was not granted within {}; {}", human(*.waited), last(.held, .source))]
    #[non_exhaustive]
    WaitTimeout {
        /// The lease's name.
        name: String,
        /// How long the call waited.
        waited: Duration,
        /// Who held it, when the database last answered.
        held: Option<Box<LeaseInfo>>,
        /// Why the database did not answer, when that was the last thing that happened.
        source: Option<Box<Error>>,
    },

    /// So many processes wait in line for the lease that no more may join it.
    #[error("the queue for lease {name:?} is full: {waiting} processes are waiting")]
    #[non_exhaustive]
    QueueFull {
        /// The lease's name.
        name: String,
        /// How many wait.
        waiting: u32,
    },

    /// The lease is not held any more. Nothing may be done in its name from now on.
    #[error("lease {name:?} is lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The lease's name.
        name: String,
        /// Why.
        reason: LostReason,
    },

    /// The collection lacks an index without which nothing is safe, so nothing was sent.
    #[error("{problem}; run `mongo-lease-migrate up --db {database} --collection {collection}`")]
    #[non_exhaustive]
    NotMigrated {
        /// What is missing, or stands in its place.
        problem: String,
        /// The database.
        database: String,
        /// The collection.
        collection: String,
    },

    /// The user may not do what is needed.
    #[error("{}", describe_privilege(.privilege, .namespace))]
    #[non_exhaustive]
    MissingPrivilege {
        /// The privilege action, such as `listIndexes`.
        privilege: &'static str,
        /// On what: `database.collection`.
        namespace: String,
        /// What the server said.
        source: mongodb::error::Error,
    },

    /// The lease's document is of a form that no holder makes. It counts as held until a person mends it.
    #[error("the document of lease {name:?} is damaged: its {field} is of type {found}")]
    #[non_exhaustive]
    Damaged {
        /// The lease's name.
        name: String,
        /// The damaged field.
        field: &'static str,
        /// The BSON type that was found there, in the server's words.
        found: String,
    },

    /// An option has a value that cannot work. Nothing was sent.
    #[error("{option}: {reason}")]
    #[non_exhaustive]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong.
        reason: String,
    },

    /// A name has to have 1 to 512 bytes of UTF-8 without NUL. Nothing was sent.
    #[error("a lease's name must have 1 to 512 bytes without NUL: {reason}")]
    #[non_exhaustive]
    InvalidName {
        /// What is wrong.
        reason: String,
    },

    /// The server, the driver or the system lacks something that is needed.
    #[error("unsupported: {missing}")]
    #[non_exhaustive]
    Unsupported {
        /// What is missing.
        missing: String,
    },

    /// The manager has been shut down.
    #[error("the lease manager has been shut down")]
    ShutDown,

    /// The election was [stopped](crate::Election::stop) before it was won.
    #[error("the election was stopped before it was won")]
    Stopped,

    /// Nobody knows whether it happened. If it did, it ends with the lease's ttl at the latest.
    #[error("the outcome is unknown: {reason}{}", describe_cause(.source))]
    #[non_exhaustive]
    Unknown {
        /// Why nobody knows.
        reason: String,
        /// The driver's error, if there was one.
        source: Option<mongodb::error::Error>,
    },

    /// The database refused, or could not be reached; nothing was written. The message names the addresses that the
    /// driver has tried, and why each of them failed.
    #[error("{}", driver::describe(.0))]
    MongoDb(#[from] mongodb::error::Error),
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// Its time ran out, and it was not to be renewed any more.
    #[error("it has expired")]
    Expired,
    /// Its time ran out while the database confirmed no renewal.
    #[error("the database has confirmed no renewal for {}", human(*.since))]
    #[non_exhaustive]
    OutOfReach {
        /// How long, at the moment of the loss, the first unconfirmed renewal was under way.
        since: Duration,
    },
    /// Somebody else holds it.
    #[error("{}", describe_taker(.by))]
    #[non_exhaustive]
    TakenOver {
        /// Who, as `label@host:pid`; `None` for another program.
        by: Option<String>,
    },
    /// Its document has gone: an operator released it, or it expired and was removed.
    #[error("it was released by somebody else")]
    Removed,
    /// Somebody else has [resumed](crate::LeaseManager::resume) it with the same key.
    #[error("it was resumed by somebody else")]
    Resumed,
    /// It is released, or its manager has been shut down.
    #[error("it has been released")]
    Released,
}

impl Error {
    pub(crate) fn unsupported(missing: impl Into<String>) -> Error {
        Error::Unsupported { missing: missing.into() }
    }

    /// The lease's expiry is of this type, and no date.
    pub(crate) fn damaged(name: &str, found: String) -> Error {
        Error::Damaged { name: name.to_owned(), field: crate::schema::EXPIRES_AT, found }
    }

    pub(crate) fn invalid_option(option: &'static str, reason: impl ToString) -> Error {
        Error::InvalidOption { option, reason: reason.to_string() }
    }
}

/// So that `?` works in the callback of a transaction: the driver's own errors come out as they went in, labels and
/// all, and its helper retries what can be retried. Everything else is found again by
/// [`get_custom::<mongo_lease::Error>()`](mongodb::error::Error::get_custom).
impl From<Error> for mongodb::error::Error {
    fn from(error: Error) -> mongodb::error::Error {
        if let Error::MongoDb(source) | Error::Unknown { source: Some(source), .. } = error {
            return source;
        }
        mongodb::error::Error::custom(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let maybe_applied = failure.outcome.maybe_applied;
        let unknown = |reason: String, source| Error::Unknown { reason, source };
        match failure.cause {
            Cause::Driver(source) | Cause::Write { source, .. } if maybe_applied => {
                unknown("the database did not confirm the command".to_owned(), Some(source))
            }
            Cause::Driver(source) | Cause::Write { source, .. } => Error::MongoDb(source),
            Cause::WriteConcern(message) => unknown(message, None),
            Cause::Deadline => unknown("the database did not answer in time".to_owned(), None),
            Cause::Reply(message) => unknown(message, None),
            Cause::Unsupported(missing) => Error::Unsupported { missing },
            Cause::ShutDown => Error::ShutDown,
        }
    }
}

/// What was last seen is not what is: how long it was held for still, then, says nothing now.
fn last(held: &Option<Box<LeaseInfo>>, source: &Option<Box<Error>>) -> String {
    let seen = match held.as_deref() {
        Some(LeaseInfo { state: LeaseState::Free, waiting, .. }) => {
            format!("it was free, with {waiting} in the queue, when the database last answered")
        }
        Some(LeaseInfo { owner: Some(owner), .. }) => {
            format!("{owner} held it when the database last answered")
        }
        Some(_) => "another program held it when the database last answered".to_owned(),
        None => "the database did not answer".to_owned(),
    };
    let own = held.as_deref().map(describe_own).unwrap_or_default();
    match source {
        Some(source) => format!("{seen}{own}; the last error: {source}"),
        None => format!("{seen}{own}"),
    }
}

/// A task that waits for what its own process holds may wait for itself.
fn describe_own(info: &LeaseInfo) -> &'static str {
    match info.held_here {
        true => "; the holder is this process, and leases are not re-entrant",
        false => "",
    }
}

fn describe_privilege(privilege: &str, namespace: &str) -> String {
    let lacking = format!("the user lacks the privilege `{privilege}` on {namespace}");
    match privilege {
        "listIndexes" => {
            format!(
                "{lacking}: grant it, or build with `assume_indexes(true)` if both indexes exist"
            )
        }
        _ => lacking,
    }
}

fn describe_cause(source: &Option<mongodb::error::Error>) -> String {
    source.as_ref().map(|source| format!(": {}", driver::condense(source))).unwrap_or_default()
}

fn describe_taker(by: &Option<String>) -> String {
    match by {
        Some(owner) => format!("{owner} has taken it over"),
        None => "another program has taken it over".to_owned(),
    }
}
