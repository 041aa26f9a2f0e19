//! The errors of a migration, and how failed commands are classified.

use std::fmt;

use mongodb::error::{Error as DriverError, ErrorKind};

/// An error of a migration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Only a person can decide how to go on.
    #[non_exhaustive]
    Blocked {
        /// The obstacle.
        problem: String,
    },
    /// The user lacks a required privilege.
    #[non_exhaustive]
    MissingPrivilege {
        /// The privilege action, such as `createIndex`.
        privilege: &'static str,
        /// The namespace, as `database.collection`.
        namespace: String,
        /// The server's error.
        source: DriverError,
    },
    /// The database did not confirm a command. A new plan shows whether it was applied.
    #[non_exhaustive]
    Unknown {
        /// Why the outcome is unknown.
        reason: String,
        /// The driver's error, if there was one.
        source: Option<DriverError>,
    },
    /// The database refused, or could not be reached.
    MongoDb(DriverError),
}

/// The result of the functions in this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Uses the wording of the library's errors.
impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Blocked { problem } => formatter.write_str(problem),
            Error::MissingPrivilege { privilege, namespace, .. } => {
                write!(formatter, "the user lacks the privilege `{privilege}` on {namespace}")
            }
            Error::Unknown { reason, source } => {
                write!(formatter, "the outcome is unknown: {reason}")?;
                match source {
                    Some(source) => write!(formatter, ": {}", source.kind),
                    None => Ok(()),
                }
            }
            Error::MongoDb(source) => mongo_lease::Error::from(source.clone()).fmt(formatter),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::MissingPrivilege { source, .. } | Error::MongoDb(source) => Some(source),
            Error::Unknown { source, .. } => {
                source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
            }
            Error::Blocked { .. } => None,
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Driver(DriverError),
    /// The server did it, but could not confirm that it is durable.
    WriteConcern(String),
    /// No answer in time.
    Deadline,
    /// An answer that cannot be parsed.
    Reply,
}

pub(super) const UNAUTHORIZED: i32 = 13;
pub(super) const NAMESPACE_NOT_FOUND: i32 = 26;
pub(super) const IS_A_VIEW: i32 = 166;
/// APIStrictError: the strict Stable API does not have this command, or this option.
pub(super) const API_STRICT: i32 = 323;
/// CannotConvertIndexToUnique: there are duplicates.
pub(super) const CANNOT_CONVERT: i32 = 359;

/// Errors after which the command may have been done. Router errors, a time limit, a write concern, a shutdown, a
/// step-down.
const MAYBE_DONE: [i32; 12] = [6, 7, 50, 64, 89, 91, 189, 262, 9_001, 11_600, 11_601, 11_602];
/// Errors after which nothing was done and a retry may succeed. Conflicts, no primary, an outdated map of the shards.
const NOT_DONE: [i32; 11] = [24, 63, 70, 112, 249, 365, 10_107, 11_000, 13_388, 13_435, 13_436];
/// Errors that another read of the indexes explains. NamespaceNotFound, IndexNotFound, NamespaceExists,
/// IndexAlreadyExists, InvalidOptions (another process has undone the preparation), IndexOptionsConflict,
/// IndexKeySpecsConflict; ConflictingOperationInProgress, CommandFailed (the index was changed during the change),
/// IndexBuildAborted.
const LOOK_AGAIN: [i32; 11] = [26, 27, 48, 68, 72, 85, 86, 117, 125, 276, CANNOT_CONVERT];

impl Failure {
    /// The code of the server's error, if the server refused.
    pub(super) fn server_code(&self) -> Option<i32> {
        if let Failure::Driver(error) = self
            && let ErrorKind::Command(command) = error.kind.as_ref()
        {
            return Some(command.code);
        }
        None
    }

    /// Whether the same command may succeed on a retry.
    pub(super) fn is_passing(&self) -> bool {
        let Failure::Driver(error) = self else { return true };
        if did_nothing(error) {
            return true;
        }
        // The driver may add error kinds, and a broken connection may be any of them.
        #[allow(clippy::wildcard_enum_match_arm)]
        match error.kind.as_ref() {
            ErrorKind::Command(command) => {
                MAYBE_DONE.contains(&command.code) || NOT_DONE.contains(&command.code)
            }
            ErrorKind::InvalidArgument { .. }
            | ErrorKind::Authentication { .. }
            | ErrorKind::BsonSerialization(_)
            | ErrorKind::SessionsNotSupported
            | ErrorKind::InvalidTlsConfig { .. }
            | ErrorKind::IncompatibleServer { .. }
            | ErrorKind::Shutdown => false,
            _ => true,
        }
    }

    /// Whether another read of the indexes may show success or an obstacle.
    pub(super) fn may_look_again(&self) -> bool {
        if let Failure::Driver(error) = self
            && let ErrorKind::ServerSelection { .. } = error.kind.as_ref()
        {
            // The driver has already waited for a server for as long as it is configured to.
            return false;
        }
        self.server_code().is_some_and(|code| LOOK_AGAIN.contains(&code)) || self.is_passing()
    }

    /// Whether the user lacks a privilege.
    pub(super) fn is_unauthorized(&self) -> bool {
        matches!(self, Failure::Driver(error) if is_unauthorized(error))
    }

    /// The error for a failed command that needs this privilege.
    pub(super) fn explain(self, privilege: &'static str, namespace: &str) -> Error {
        if let Failure::Driver(source) = &self
            && is_unauthorized(source)
        {
            let (namespace, source) = (namespace.to_owned(), source.clone());
            return Error::MissingPrivilege { privilege, namespace, source };
        }
        self.into()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let unknown = |reason: &str, source| Error::Unknown { reason: reason.to_owned(), source };
        match failure {
            Failure::Driver(source) if may_be_done(&source) => {
                unknown("the database did not confirm the command", Some(source))
            }
            Failure::Driver(source) => Error::MongoDb(source),
            Failure::WriteConcern(text) => {
                unknown(&format!("the write is not acknowledged by a majority: {text}"), None)
            }
            Failure::Deadline => unknown("the database did not answer in time", None),
            Failure::Reply => unknown("the reply to a listing contains no batch", None),
        }
    }
}

/// Whether the driver says "not sent", or the server says "overloaded".
fn did_nothing(error: &DriverError) -> bool {
    error.contains_label("NoWritesPerformed")
        || error.contains_label("SystemOverloadedError") && error.contains_label("RetryableError")
}

fn may_be_done(error: &DriverError) -> bool {
    if did_nothing(error) {
        return false;
    }
    // The driver may add error kinds, and an unknown one may stand for a command that was carried out.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        ErrorKind::Command(command) => MAYBE_DONE.contains(&command.code),
        ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => false,
        _ => Failure::Driver(error.clone()).is_passing(),
    }
}

/// Whether the server denied access. Atlas uses a code of its own for this.
fn is_unauthorized(error: &DriverError) -> bool {
    const ATLAS_ERROR: i32 = 8_000;
    let ErrorKind::Command(command) = error.kind.as_ref() else { return false };
    command.code == UNAUTHORIZED
        || command.code == ATLAS_ERROR && command.message.contains("not allowed")
}
