//! Classifies driver errors: the write happened, did not happen, or may have happened.

use mongodb::error::{Error as DriverError, ErrorKind};

use crate::commands::failure::{Cause, Failure};
use crate::rules::outcome::{self, DriverTrouble, NOT_APPLIED};

/// Classifies a driver error by its effect on the write.
pub(crate) fn driver_failure(error: DriverError) -> Failure {
    // The driver's labels for "not sent": the server was overloaded and did nothing, or there was no connection.
    let did_nothing = error.contains_label("SystemOverloadedError")
        && error.contains_label("RetryableError")
        || error.contains_label("NoWritesPerformed");
    // The driver may add error kinds, and an unknown one may stand for a write that happened.
    #[allow(clippy::wildcard_enum_match_arm)]
    let outcome = match error.kind.as_ref() {
        _ if did_nothing => NOT_APPLIED,
        ErrorKind::Command(command) => outcome::of_command_error(command.code),
        ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => outcome::of_driver_trouble(DriverTrouble::NotSent),
        ErrorKind::InvalidArgument { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::BsonSerialization(_)
        | ErrorKind::SessionsNotSupported
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::Shutdown => outcome::of_driver_trouble(DriverTrouble::Misuse),
        _ => outcome::of_driver_trouble(DriverTrouble::Broken),
    };
    Failure { outcome, cause: Cause::Driver(error) }
}
