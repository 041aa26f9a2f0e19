//! Failures: the message and the exit code.

use mongo_lease::Error;
use mongo_lease_migrations::connect::Fault;
use mongo_lease_migrations::indexes;

use crate::arguments::Options;
use crate::exit::Exit;

/// The failure of a subcommand. The message contains no secrets.
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

    /// The failure for a call of the operating system about something, such as a file.
    pub(crate) fn of_system(subject: &str, error: &std::io::Error) -> Failure {
        Failure { exit: Exit::System, message: format!("{subject}: {error}") }
    }

    /// The failure for a library error.
    pub(crate) fn of(error: &Error, options: &Options) -> Failure {
        let message = if let Error::MissingPrivilege { privilege, namespace, .. } = error {
            describe_privilege(privilege, namespace)
        } else {
            error.to_string()
        };
        Failure { exit: exit_of(error), message: options.connection.veil(&message) }
    }

    /// The failure for an error of the index plan.
    pub(crate) fn of_plan(error: &indexes::Error, options: &Options) -> Failure {
        let message = if let indexes::Error::MissingPrivilege { privilege, namespace, .. } = error {
            describe_privilege(privilege, namespace)
        } else {
            error.to_string()
        };
        Failure::out_of_reach(options.connection.veil(&message))
    }

    /// The failure for a driver error, in the library's words. The driver's own text is a dump of its fields.
    pub(crate) fn of_driver(error: &mongodb::error::Error, options: &Options) -> Failure {
        let message = Error::from(error.clone()).to_string();
        Failure::out_of_reach(options.connection.veil(&message))
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

fn describe_privilege(privilege: &str, namespace: &str) -> String {
    let lacking = format!("the user lacks the privilege `{privilege}` on {namespace}");
    match privilege {
        "listIndexes" => {
            format!("{lacking}: grant it, or pass --assume-indexes if both indexes exist")
        }
        _ => lacking,
    }
}

// The library may add errors: those not named here count as database errors.
#[allow(clippy::wildcard_enum_match_arm)]
fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Busy(_) | Error::QueueFull { .. } => Exit::Busy,
        // If no holder is known, the database has not answered. An uncertain source may only mean that the end of the
        // wait cut an attempt short.
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
