//! Failure: why a command has not done what it was asked for, and with which code it ends.

use mongo_lease::Error;
use mongo_lease_migrations::connect::Fault;

use crate::arguments::Options;
use crate::exit::Exit;

/// Why it did not work. The message has no secrets.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, message: message.into() }
    }

    pub(crate) fn out_of_reach(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::OutOfReach, message: message.into() }
    }

    /// An error of the library's.
    pub(crate) fn of(error: &Error, options: &Options) -> Failure {
        let mut message = options.connection.describe(error);
        if let Error::MissingPrivilege { privilege: "listIndexes", .. } = error {
            message
                .push_str(": grant it, or state with --assume-indexes that the indexes are there");
        }
        Failure { exit: exit_of(error), message }
    }

    /// An error of the driver's, in the library's words: its own text is a dump of its fields.
    pub(crate) fn of_driver(error: &mongodb::error::Error, options: &Options) -> Failure {
        Failure::out_of_reach(options.connection.describe(&Error::from(error.clone())))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        match fault {
            Fault::Usage(message) => Failure::usage(message),
            Fault::OutOfReach(message) => Failure::out_of_reach(message),
        }
    }
}

// The library's list is open: what is added later is the database's, unless it is named here.
#[allow(clippy::wildcard_enum_match_arm)]
fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Busy(_) | Error::QueueFull { .. } => Exit::Busy,
        // Where nobody is known to hold it, nobody has answered. A source that is in doubt may be no more than an
        // attempt that the end of the wait has cut short.
        Error::WaitTimeout { held: None, .. } => Exit::OutOfReach,
        Error::WaitTimeout { source: Some(source), .. } => match source.as_ref() {
            Error::Unknown { .. } => Exit::Busy,
            other => exit_of(other),
        },
        Error::WaitTimeout { .. } => Exit::Busy,
        Error::Lost { .. } => Exit::Lost,
        Error::NotMigrated { .. } => Exit::NotMigrated,
        Error::Damaged { .. } => Exit::Damaged,
        Error::InvalidOption { .. } | Error::InvalidName { .. } => Exit::Usage,
        _ => Exit::OutOfReach,
    }
}
