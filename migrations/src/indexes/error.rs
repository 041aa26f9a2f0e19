//! What can go wrong with a migration, and what a failed command says of itself.

use std::fmt;

use mongodb::error::{Error as DriverError, ErrorKind};

/// What can go wrong with a migration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Only a person can decide what is to be done.
    #[non_exhaustive]
    Blocked {
        /// What stands in the way.
        problem: String,
    },
    /// The user may not do what is needed.
    #[non_exhaustive]
    MissingPrivilege {
        /// The privilege action, such as `createIndex`.
        privilege: &'static str,
        /// On what: `database.collection`.
        namespace: String,
        /// What the server said.
        source: DriverError,
    },
    /// The database did not confirm a command. A new plan says what was done.
    #[non_exhaustive]
    Unknown {
        /// Why nobody knows.
        reason: String,
        /// The driver's error, if there was one.
        source: Option<DriverError>,
    },
    /// The database refused, or could not be reached.
    MongoDb(DriverError),
}

/// What every call here returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// In the words of the library's errors.
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

/// Why a command has failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Driver(DriverError),
    /// The server did it, and could not say that it will last.
    WriteConcern(String),
    /// No answer in time.
    Deadline,
    /// An answer that cannot be understood.
    Reply,
}

pub(super) const UNAUTHORIZED: i32 = 13;
pub(super) const NAMESPACE_NOT_FOUND: i32 = 26;
pub(super) const IS_A_VIEW: i32 = 166;
/// CannotConvertIndexToUnique: there are duplicates.
pub(super) const CANNOT_CONVERT: i32 = 359;

/// What may have been done all the same: errors of a router's, a time limit, a write concern, a shutdown, a step-down.
const MAYBE_DONE: [i32; 12] = [6, 7, 50, 64, 89, 91, 189, 262, 9_001, 11_600, 11_601, 11_602];
/// What was not done, and another try may do better: conflicts with others, no primary, an old map of the shards.
const NOT_DONE: [i32; 11] = [24, 63, 70, 112, 249, 365, 10_107, 11_000, 13_388, 13_435, 13_436];
/// What another look at the indexes explains. NamespaceNotFound, IndexNotFound, NamespaceExists, IndexAlreadyExists,
/// InvalidOptions (somebody else has taken the preparation back), IndexOptionsConflict, IndexKeySpecsConflict;
/// ConflictingOperationInProgress, CommandFailed (the index was changed while it was being changed), IndexBuildAborted.
const LOOK_AGAIN: [i32; 11] = [26, 27, 48, 68, 72, 85, 86, 117, 125, 276, CANNOT_CONVERT];

impl Failure {
    /// The code of the server's error, if it was the server that said no.
    pub(super) fn server_code(&self) -> Option<i32> {
        if let Failure::Driver(error) = self
            && let ErrorKind::Command(command) = error.kind.as_ref()
        {
            return Some(command.code);
        }
        None
    }

    /// Whether the same command may succeed if it is sent again.
    pub(super) fn is_passing(&self) -> bool {
        let Failure::Driver(error) = self else { return true };
        if did_nothing(error) {
            return true;
        }
        // The driver's kinds are open for new ones, and a broken connection may be any of them.
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

    /// Whether another look may show that it is done, or what stands in the way of it.
    pub(super) fn may_look_again(&self) -> bool {
        if let Failure::Driver(error) = self
            && let ErrorKind::ServerSelection { .. } = error.kind.as_ref()
        {
            // The driver has waited for a server as long as it was told to.
            return false;
        }
        self.server_code().is_some_and(|code| LOOK_AGAIN.contains(&code)) || self.is_passing()
    }

    /// The error for a failure of a command that needs this privilege.
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

/// The driver's words for "not sent", and the server's for "overloaded".
fn did_nothing(error: &DriverError) -> bool {
    error.contains_label("NoWritesPerformed")
        || error.contains_label("SystemOverloadedError") && error.contains_label("RetryableError")
}

fn may_be_done(error: &DriverError) -> bool {
    if did_nothing(error) {
        return false;
    }
    // The driver's kinds are open for new ones, and an unknown one may stand for a command that was carried out.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        ErrorKind::Command(command) => MAYBE_DONE.contains(&command.code),
        ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => false,
        _ => Failure::Driver(error.clone()).is_passing(),
    }
}

/// Atlas has its own word for it.
fn is_unauthorized(error: &DriverError) -> bool {
    const ATLAS_ERROR: i32 = 8_000;
    let ErrorKind::Command(command) = error.kind.as_ref() else { return false };
    command.code == UNAUTHORIZED
        || command.code == ATLAS_ERROR && command.message.contains("not allowed")
}
