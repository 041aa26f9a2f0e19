//! What a driver error says of the write: it happened, it did not, or nobody knows.

use mongodb::error::{Error as DriverError, ErrorKind};

use crate::commands::failure::{Cause, Failure};
use crate::rules::outcome::{self, DriverTrouble, NOT_APPLIED};

/// What an error of the driver's says of the write.
pub(crate) fn driver_failure(error: DriverError) -> Failure {
    // "Overloaded, and did nothing", or no connection was made: the driver's words for "not sent".
    let did_nothing = error.contains_label("SystemOverloadedError")
        && error.contains_label("RetryableError")
        || error.contains_label("NoWritesPerformed");
    // The driver's kinds are open for new ones, and an unknown one may stand for a write that happened.
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
