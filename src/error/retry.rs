//! Whether a retry may help, and when.

use std::time::Duration;

use mongo_lease_core::info::LeaseState;
use mongo_lease_core::rules::{Advice, outcome};
use mongodb::error::{Error as DriverError, ErrorKind, TRANSIENT_TRANSACTION_ERROR, WriteFailure};

use super::Error;
use crate::failure::driver_outcome;

/// The longest time after which to try again. A holder that is another program may hold for years.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

impl Error {
    /// Whether the same call may succeed later, although nobody changes the program, the user or the collection.
    ///
    /// - True: another holder has the lease or the queue is full ([`Busy`](Error::Busy),
    ///   [`WaitTimeout`](Error::WaitTimeout), [`QueueFull`](Error::QueueFull)); the database is out of reach, has no
    ///   primary, or did not answer in time ([`Unknown`](Error::Unknown), some of [`MongoDb`](Error::MongoDb)).
    /// - False: a person has to act ([`InvalidOption`](Error::InvalidOption), [`InvalidName`](Error::InvalidName),
    ///   [`NotMigrated`](Error::NotMigrated), [`MissingPrivilege`](Error::MissingPrivilege),
    ///   [`Damaged`](Error::Damaged), [`Unsupported`](Error::Unsupported), other errors of `MongoDb` such as a refused
    ///   login); or the handle is done ([`Lost`](Error::Lost), [`ShutDown`](Error::ShutDown),
    ///   [`Stopped`](Error::Stopped)); or a transaction that is repeated may be carried out twice
    ///   ([`CommitUnknown`](Error::CommitUnknown)), or take too long again
    ///   ([`TransactionTooLong`](Error::TransactionTooLong)). After `Lost` a new acquire may succeed. Whether the
    ///   interrupted work may be repeated, only its author knows.
    ///
    /// It is a guess about the next call and says nothing about this one: after [`Unknown`](Error::Unknown), the
    /// operation may have taken effect. The crate has retried within the call's time already: wait between calls, for
    /// longer each time.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use mongo_lease::Error;
    ///
    /// /// When to try again; `None` if that is of no use.
    /// fn next_try(error: &Error, backoff: Duration) -> Option<Duration> {
    ///     error.is_transient().then(|| error.retry_after().unwrap_or(backoff).min(backoff))
    /// }
    /// # let _ = next_try;
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Busy(_) | Error::QueueFull { .. } | Error::Unknown { .. } => true,
            Error::WaitTimeout { source, .. } => source.as_deref().is_none_or(Error::is_transient),
            Error::MongoDb(source) => may_pass(source),
            Error::Lost { .. }
            | Error::NotMigrated { .. }
            | Error::MissingPrivilege { .. }
            | Error::Damaged { .. }
            | Error::InvalidOption { .. }
            | Error::InvalidName { .. }
            | Error::Unsupported { .. }
            | Error::CommitUnknown { .. }
            | Error::TransactionTooLong { .. }
            | Error::ShutDown
            | Error::Stopped => false,
        }
    }

    /// How long the holder has the lease at the most, unless it renews it: of [`Busy`](Error::Busy) only, counted from
    /// the server's answer, and at most a day.
    ///
    /// After this time the lease of a crashed holder is free, and so is a name that `hold_at_least` keeps. A live
    /// holder may release sooner, or renew and keep the lease for longer. So it is an upper bound of a sensible pause,
    /// and no promise that the next call succeeds. `None` for every other error, and where the document does not show
    /// an expiry: then use a backoff of your own.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let Error::Busy(info) = self else {
            return None;
        };
        let is_held = info.state == LeaseState::Held;
        is_held.then_some(info.remaining).flatten().map(|time| time.min(RETRY_AFTER_MAX))
    }
}

/// Whether a driver's error may be gone at the next try.
fn may_pass(error: &DriverError) -> bool {
    // The driver may add new kinds.
    #[allow(clippy::wildcard_enum_match_arm)]
    let outcome = match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(refused)) => {
            outcome::of_write_error(refused.code)
        }
        _ => driver_outcome(error),
    };
    outcome.advice == Advice::Retry || error.contains_label(TRANSIENT_TRANSACTION_ERROR)
}
