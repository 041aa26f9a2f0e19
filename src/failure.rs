//! What a failed attempt says: whether the write has happened, and whether to try again.

use mongodb::bson::Document;
use mongodb::error::{Error as DriverError, ErrorKind};

use crate::error::{Cause, Failure};
use crate::rules::outcome::{self, DriverTrouble, MAYBE_APPLIED, NOT_APPLIED, Outcome, Then};

impl Failure {
    /// The same failure, where an earlier or another attempt may have been applied all the same.
    pub(crate) fn or_maybe(mut self, maybe_applied: bool) -> Failure {
        self.outcome.maybe_applied |= maybe_applied;
        self
    }
}

/// A reply that says something else than it should.
pub(crate) fn decode_failure(cause: Cause) -> Failure {
    let outcome = match cause {
        Cause::Unsupported(_) => Outcome { maybe_applied: true, then: Then::Stop },
        Cause::Driver(_)
        | Cause::WriteConcern(_)
        | Cause::Deadline
        | Cause::Reply(_)
        | Cause::ShutDown => MAYBE_APPLIED,
    };
    Failure { outcome, cause }
}

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

/// The driver hands a write-concern error back inside a reply that says "ok": it did happen, and may not last.
pub(crate) fn write_concern_error(reply: &Document) -> Option<String> {
    let error = reply.get("writeConcernError")?;
    let text = match error.as_document() {
        Some(document) => match document.get_str("errmsg") {
            Ok(message) if !message.is_empty() => message.to_owned(),
            Ok(_) | Err(_) => document.get_str("codeName").unwrap_or("no reason given").to_owned(),
        },
        None => error.to_string(),
    };
    Some(format!("the write is not acknowledged by a majority: {text}"))
}
