//! The errors of this crate.

mod convert;
mod describe;
mod driver;
mod retry;
#[cfg(test)]
mod tests;

use std::time::Duration;
use std::{error, fmt};

use mongo_lease_core::format;
use mongo_lease_core::info::{
    LeaseInfo, LeaseState, as_known_millis, as_millis, human, text::printable,
};
use mongo_lease_core::rules::REFUSED;
use serde::Serialize;

use crate::clock::NoRandomness;
use crate::failure::{Cause, Failure};
use describe::{
    describe_cause, describe_last, describe_own, describe_pause, describe_privilege, describe_taker,
};

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a lease operation.
///
/// A lease with another holder is an error only if the call was told to wait for the lease or to require it.
///
/// `Debug` shows the message and its sources, and not the fields: it is what `fn main() -> Result<()>` prints.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another holder has the lease, and the call was not to wait.
    #[error("{}{}", .0, describe_own(.0))]
    Busy(Box<LeaseInfo>),
    /// The lease was not granted within the call's waiting time.
    #[error(
        "lease {name:?} was not granted within {}; {}",
        human(*.waited), last(*.waited_for_turn, .held, .source)
    )]
    #[non_exhaustive]
    WaitTimeout {
        /// The lease's name.
        name: String,
        /// How long the call waited.
        waited: Duration,
        /// Whether the call waited, when its time was over, for an earlier call of its manager for the same name.
        /// Meanwhile it asked the database nothing: `held` is from the last answer to any of these calls.
        waited_for_turn: bool,
        /// The holder at the database's last answer.
        held: Option<Box<LeaseInfo>>,
        /// Why the database did not answer, if that was the last failure before the timeout.
        source: Option<Box<Error>>,
    },
    /// The lease's queue is full: it may have no more entries.
    #[error("the queue for lease {name:?} is full: it has {waiting} entries")]
    #[non_exhaustive]
    QueueFull {
        /// The lease's name.
        name: String,
        /// How many entries the queue has: one for each manager that waits, and up to 16 for one with calls for
        /// permits.
        waiting: u32,
    },
    /// The lease is not held any more. Its former holder must not act on it from now on.
    #[error("lease {name:?} is lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The lease's name.
        name: String,
        /// Why it was lost.
        reason: LostReason,
    },
    /// The collection lacks a required index, or has documents of another format. Nothing was sent.
    #[error(
        "{problem}; run `mongo-lease-migrate up --db {database} --collection {collection}`, of the \
         package `mongo-lease-migrations`"
    )]
    #[non_exhaustive]
    NotMigrated {
        /// The missing index, the object in its place, or the foreign format.
        problem: String,
        /// The database.
        database: String,
        /// The collection.
        collection: String,
    },
    /// The user lacks a required privilege.
    #[error("{}", describe_privilege(.privilege, .namespace))]
    #[non_exhaustive]
    MissingPrivilege {
        /// The privilege action, such as `listIndexes`.
        privilege: &'static str,
        /// The namespace for which it is missing: `database.collection`.
        namespace: String,
        /// The server's error.
        source: mongodb::error::Error,
    },
    /// The lease document has a form that no holder writes. It counts as held until a person repairs it.
    #[error("the document of lease {name:?} is damaged: its {field} is of type {found}")]
    #[non_exhaustive]
    Damaged {
        /// The lease's name.
        name: String,
        /// The corrupt field.
        field: &'static str,
        /// The BSON type that was found there, as the server names it; `unknown` where nothing shows it.
        found: String,
    },
    /// An option has an invalid value. Nothing was sent.
    #[error("{option}: {reason}")]
    #[non_exhaustive]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// Why the value is invalid.
        reason: String,
    },
    /// A name must have 1 to 512 bytes of UTF-8 without NUL. Nothing was sent.
    #[error("a lease's name must have 1 to 512 bytes without NUL: {reason}")]
    #[non_exhaustive]
    InvalidName {
        /// Why the name is invalid.
        reason: String,
    },
    /// The server, the driver or the system lacks a required feature.
    #[error("unsupported: {missing}")]
    #[non_exhaustive]
    Unsupported {
        /// The missing feature.
        missing: String,
    },
    /// The manager has been shut down.
    #[error("the lease manager has been shut down")]
    ShutDown,
    /// The election was [stopped](crate::Election::stop) before it was won.
    #[error("the election was stopped before it was won")]
    Stopped,
    /// Whether the operation took effect is unknown. If it did, its effect ends with the lease's ttl at the latest.
    #[error("the outcome is unknown: {reason}{}", describe_cause(.source))]
    #[non_exhaustive]
    Unknown {
        /// Why the outcome is unknown.
        reason: String,
        /// The driver's error, if there was one.
        source: Option<mongodb::error::Error>,
    },
    /// Whether a [transaction](crate::Transaction::commit) was committed is unknown: no answer to its commit has told
    /// within 30 s. To repeat the whole transaction may carry it out twice.
    #[error(
        "whether the transaction under lease {name:?} was committed is unknown{}",
        describe_cause(.source)
    )]
    #[non_exhaustive]
    CommitUnknown {
        /// The lease's name.
        name: String,
        /// The driver's last error, if there was one.
        source: Option<mongodb::error::Error>,
    },
    /// A [transaction](crate::Transaction) was open for longer than its lease is valid without a renewal. It was
    /// aborted; to repeat it cannot help.
    #[error(
        "a transaction under lease {name:?} took longer than the lease is valid without a \
         renewal: give the lease a ttl longer than {}, or do less in the transaction",
        human(*.ttl)
    )]
    #[non_exhaustive]
    TransactionTooLong {
        /// The lease's name.
        name: String,
        /// The lease's ttl.
        ttl: Duration,
    },
    /// The database refused, or could not be reached. Nothing was written. The message names the addresses that the
    /// driver tried, and why each of them failed.
    #[error("{}", driver::describe(.0))]
    MongoDb(#[source] mongodb::error::Error),
}

/// Why a lease was lost.
///
/// Serialized as an object: `reason` is the word that the metrics use too, as in `taken_over`, and beside it stand the
/// variant's fields, `since_ms` in whole milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LostReason {
    /// Its time ran out before its next renewal was sent.
    ///
    /// The process stood still for longer than the ttl: it was stopped, its async runtime was blocked, or its machine
    /// was suspended. Somebody else may have held the lease meanwhile. Of a [detached](crate::Lease::detach) lease:
    /// nobody renewed it in time.
    #[error("it was not renewed in time{}", describe_pause(*.stood_still))]
    #[non_exhaustive]
    NotRenewed {
        /// For how long this process did not do what was due, as far as it knows.
        #[serde(
            rename = "stood_still_ms",
            serialize_with = "as_known_millis",
            skip_serializing_if = "Option::is_none"
        )]
        stood_still: Option<Duration>,
    },
    /// Its time ran out while renewals failed, or were not answered.
    #[error(
        "the database has confirmed no renewal for {}{}", human(*.since), describe_last(.last_error)
    )]
    #[non_exhaustive]
    OutOfReach {
        /// How long the first unconfirmed renewal had been under way at the loss.
        #[serde(rename = "since_ms", serialize_with = "as_millis")]
        since: Duration,
        /// Why the last renewal that failed was not confirmed, if any had failed by then.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_error: Option<String>,
    },
    /// Another holder has it.
    #[error("{}", describe_taker(.by))]
    #[non_exhaustive]
    TakenOver {
        /// The new holder, as `label@host:pid`; `None` for another program.
        by: Option<String>,
    },
    /// Its document is gone: an operator released the lease, or it expired and was removed.
    #[error("it was released by somebody else")]
    Removed,
    /// Another process has [resumed](crate::LeaseManager::resume) it with the same key.
    #[error("it was resumed by somebody else")]
    Resumed,
    /// Its time ran out as it was asked to: by its [`max_hold`](crate::Acquire::max_hold), or without
    /// [renewal](crate::Acquire::renew).
    #[error("it ended as asked, by its max_hold or with its renewal off")]
    EndedAsAsked,
    /// It was released, or its manager was shut down.
    #[error("it has been released")]
    Released,
}

impl Error {
    /// The kind of the error, as one word that does not change: the `error.type` of a span.
    #[cfg(any(test, feature = "tracing"))]
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Error::Busy(_) => "busy",
            Error::WaitTimeout { .. } => "wait_timeout",
            Error::QueueFull { .. } => "queue_full",
            Error::Lost { .. } => "lost",
            Error::NotMigrated { .. } => "not_migrated",
            Error::MissingPrivilege { .. } => "missing_privilege",
            Error::Damaged { .. } => "damaged",
            Error::InvalidOption { .. } => "invalid_option",
            Error::InvalidName { .. } => "invalid_name",
            Error::Unsupported { .. } => "unsupported",
            Error::ShutDown => "shut_down",
            Error::Stopped => "stopped",
            Error::Unknown { .. } => "unknown",
            Error::CommitUnknown { .. } => "commit_unknown",
            Error::TransactionTooLong { .. } => "transaction_too_long",
            Error::MongoDb(_) => "mongodb",
        }
    }

    /// The code of the server's error, if the server answered with one.
    #[cfg(feature = "tracing")]
    pub(crate) fn server_code(&self) -> Option<i32> {
        if let Error::MissingPrivilege { source, .. }
        | Error::Unknown { source: Some(source), .. }
        | Error::CommitUnknown { source: Some(source), .. }
        | Error::MongoDb(source) = self
        {
            return driver::code(source);
        }
        if let Error::WaitTimeout { source, .. } = self {
            source.as_ref()?.server_code()
        } else {
            None
        }
    }

    pub(crate) fn unsupported(missing: impl Into<String>) -> Error {
        Error::Unsupported { missing: missing.into() }
    }

    /// The error of a manager whose tasks have gone.
    pub(crate) fn runtime_gone() -> Error {
        Error::unsupported(
            "the tokio runtime in which the manager was built has ended; it must run for as long \
             as the manager is used",
        )
    }

    /// The error for a lease whose `expiresAt` has this type instead of a date.
    pub(crate) fn damaged(name: &str, found: String) -> Error {
        Error::Damaged { name: name.to_owned(), field: format::EXPIRES_AT, found }
    }

    /// For the packages that are built on this one.
    #[doc(hidden)]
    pub fn invalid_option(option: &'static str, reason: impl ToString) -> Error {
        Error::InvalidOption { option, reason: reason.to_string() }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.to_string();
        let mut next = error::Error::source(self);
        while let Some(source) = next {
            let text = match source.downcast_ref() {
                Some(source) => driver::condense(source),
                None => source.to_string(),
            };
            // Most messages have that of their source within them.
            if !shown.contains(&text) {
                shown = format!("{shown}: {text}");
            }
            next = source.source();
        }
        formatter.write_str(&shown)
    }
}

impl From<NoRandomness> for Error {
    fn from(_: NoRandomness) -> Error {
        Failure::from(NoRandomness).into()
    }
}

impl From<NoRandomness> for Failure {
    fn from(_: NoRandomness) -> Failure {
        let missing = "cannot read randomness from the operating system".to_owned();
        Failure { outcome: REFUSED, cause: Cause::Unsupported(missing) }
    }
}

/// The driver does not tell whether the command has left this process: it waits for a connection of the pool, too.
const NO_ANSWER: &str = "the database did not answer in time, or no connection of the client's \
                         pool (maxPoolSize) was free";

const NOT_DRIVEN: &str = "the call sent nothing: the tokio runtime in which the manager was built \
                          has run none of its tasks meanwhile";

const NOT_SENT: &str = "the call waited in its own process until its time was over, because the \
                        process starts more calls than the database carries out; it sent nothing";

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let maybe_applied = failure.outcome.maybe_applied;
        let unknown = |reason: String, source| Error::Unknown { reason, source };
        match failure.cause {
            Cause::Driver(source) | Cause::Write(source) if maybe_applied => {
                unknown("the database did not confirm the command".to_owned(), Some(source))
            }
            Cause::Driver(source) | Cause::Write(source) => Error::MongoDb(source),
            Cause::WriteConcern(message) | Cause::Reply(message) => unknown(message, None),
            Cause::Deadline => unknown(NO_ANSWER.to_owned(), None),
            Cause::NotSent => unknown(NOT_SENT.to_owned(), None),
            Cause::NotDriven => unknown(NOT_DRIVEN.to_owned(), None),
            Cause::RuntimeGone => Error::runtime_gone(),
            Cause::Unsupported(missing) => Error::Unsupported { missing },
            Cause::ShutDown => Error::ShutDown,
        }
    }
}

/// Describes the last known state of the lease, without the remaining time, which was true only at the last answer.
fn last(
    waited_for_turn: bool,
    held: &Option<Box<LeaseInfo>>,
    source: &Option<Box<Error>>,
) -> String {
    const TURN: &str = "it waited for an earlier call of this manager for the same name, and asked \
                        the database nothing meanwhile";
    let state = held.as_deref().map(|held| match held {
        LeaseInfo { state: LeaseState::Free, waiting, .. } => {
            format!("it was free, with {waiting} in the queue,")
        }
        LeaseInfo { shared: true, in_use: Some(in_use), limit: Some(limit), .. } => {
            format!("{in_use} of {limit} permits were in use")
        }
        LeaseInfo { shared: true, .. } => "it was held by several".to_owned(),
        LeaseInfo { owner: Some(owner), .. } => format!("{} held it", printable(owner)),
        LeaseInfo { .. } => "another program held it".to_owned(),
    });
    let seen = match (waited_for_turn, state) {
        (true, Some(state)) => format!("{TURN}; {state} when the database last answered"),
        (true, None) => TURN.to_owned(),
        (false, Some(state)) => format!("{state} when the database last answered"),
        (false, None) if is_not_sent(source) => return NOT_SENT.to_owned(),
        (false, None) => "the database did not answer".to_owned(),
    };
    let own = held.as_deref().map(describe_own).unwrap_or_default();
    match source {
        Some(source) => format!("{seen}{own}; the last error: {source}"),
        None => format!("{seen}{own}"),
    }
}

/// Whether the call has waited in its own process all the time: then the database had nothing to answer.
fn is_not_sent(source: &Option<Box<Error>>) -> bool {
    matches!(source.as_deref(), Some(Error::Unknown { reason, .. }) if reason == NOT_SENT)
}
