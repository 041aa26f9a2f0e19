//! The kind of an error as a word, and the server's code.

use mongodb::error::{Error as DriverError, ErrorKind, WriteFailure};

use super::Error;

impl Error {
    /// The kind of the error, as one word that does not change: the `error.type` of a span.
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
            Error::MongoDb(_) => "mongodb",
        }
    }

    /// The code of the server's error, if the server answered with one.
    pub(crate) fn server_code(&self) -> Option<i32> {
        match self {
            Error::MissingPrivilege { source, .. }
            | Error::Unknown { source: Some(source), .. }
            | Error::MongoDb(source) => code(source),
            Error::WaitTimeout { source, .. } => source.as_deref().and_then(Error::server_code),
            Error::Busy(_)
            | Error::QueueFull { .. }
            | Error::Lost { .. }
            | Error::NotMigrated { .. }
            | Error::Damaged { .. }
            | Error::InvalidOption { .. }
            | Error::InvalidName { .. }
            | Error::Unsupported { .. }
            | Error::ShutDown
            | Error::Stopped
            | Error::Unknown { source: None, .. } => None,
        }
    }
}

fn code(error: &DriverError) -> Option<i32> {
    // The driver may add new kinds.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => Some(refused.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(failed)) => Some(failed.code),
        _ => None,
    }
}
