//! Why an attempt at a command failed, and whether its write may have been applied.

#[cfg(test)]
mod tests;

use mongo_lease_core::commands::{DecodeError, StatementError, Unconfirmed};
use mongo_lease_core::rules::{Advice, MAYBE_APPLIED, NOT_APPLIED, Outcome, REFUSED, outcome};
use mongodb::bson::{Bson, Deserializer, Document};
use mongodb::error::{Error as DriverError, ErrorKind, WriteFailure};
use serde::Deserialize;

/// Why one attempt at a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    pub(crate) cause: Cause,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The driver's error: reported by the server, or by the driver itself.
    Driver(DriverError),
    /// A statement of the command failed: the driver's form of its error.
    Write(DriverError),
    /// The server carried the write out but could not confirm that it will last.
    WriteConcern(String),
    /// No answer in time.
    Deadline,
    /// It waited in this process until its time was over.
    NotSent,
    /// An answer that cannot be decoded.
    Reply(String),
    /// The server lacks a required feature.
    Unsupported(String),
    /// It waited in this process until its time was over, and no task of the manager ran meanwhile.
    NotDriven,
    /// The runtime in which the manager was built has ended, and with it the command's task.
    RuntimeGone,
    /// The manager has been shut down.
    ShutDown,
}

/// No answer came in time.
pub(crate) const UNANSWERED: Failure = Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline };
/// The caller's time was over, or it had gone, before the command was sent.
pub(crate) const NOT_SENT: Failure = Failure { outcome: NOT_APPLIED, cause: Cause::NotSent };
/// The same, and no task of the manager has run meanwhile.
pub(crate) const NOT_DRIVEN: Failure = Failure { outcome: NOT_APPLIED, cause: Cause::NotDriven };

impl Failure {
    /// The code of the server's error, if the server refused the command.
    pub(crate) fn server_code(&self) -> Option<i32> {
        if let Cause::Driver(error) = &self.cause
            && let ErrorKind::Command(command) = error.kind.as_ref()
        {
            return Some(command.code);
        }
        None
    }

    /// The code of the server's error, if nothing is known of what it means.
    pub(crate) fn unknown_code(&self) -> Option<i32> {
        let code = if let Cause::Write(error) = &self.cause
            && let ErrorKind::Write(WriteFailure::WriteError(error)) = error.kind.as_ref()
        {
            error.code
        } else {
            self.server_code()?
        };
        outcome::is_unknown(code).then_some(code)
    }

    /// Whether the server answered, but the write may have been applied: it cut the command off, or could not confirm
    /// that the write will last. Nothing of the command is carried out after that.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_blocked() || matches!(self.cause, Cause::WriteConcern(_))
    }

    /// Whether the driver found no server in all the time that its client allows for that.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        matches!(&self.cause, Cause::Driver(error) if is_out_of_reach(error))
    }

    /// Whether the server itself said that something held the command up: then sending a part of it may succeed.
    pub(crate) fn is_blocked(&self) -> bool {
        const MAX_TIME_MS_EXPIRED: i32 = 50;
        self.server_code() == Some(MAX_TIME_MS_EXPIRED)
    }

    /// Whether the server has no majority reads: MongoDB 4.4 can be started so.
    pub(crate) fn is_no_majority_read(&self) -> bool {
        const READ_CONCERN_MAJORITY_NOT_ENABLED: i32 = 148;
        self.server_code() == Some(READ_CONCERN_MAJORITY_NOT_ENABLED)
    }

    /// Whether no read of this manager will be answered any more.
    pub(crate) fn ends_all_reads(&self) -> bool {
        self.is_no_majority_read() || matches!(self.cause, Cause::ShutDown | Cause::Unsupported(_))
    }

    /// The same failure, maybe applied if an earlier or another attempt may have been.
    pub(crate) fn or_maybe(mut self, maybe_applied: bool) -> Failure {
        self.outcome.maybe_applied |= maybe_applied;
        self
    }
}

/// Whether the driver found no server to which it could have sent the command.
pub(crate) fn is_out_of_reach(error: &DriverError) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. })
}

/// The failure for a driver error: the write happened, did not happen, or may have happened.
pub(crate) fn driver_failure(error: DriverError) -> Failure {
    Failure { outcome: driver_outcome(&error), cause: Cause::Driver(error) }
}

/// The effect of a driver error on the write.
pub(crate) fn driver_outcome(error: &DriverError) -> Outcome {
    // The driver's labels for "not sent": the server was overloaded and did nothing, or there was no connection.
    let did_nothing = error.contains_label("SystemOverloadedError")
        && error.contains_label("RetryableError")
        || error.contains_label("NoWritesPerformed");
    // The driver may add error kinds, and an unknown one may stand for a write that happened.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        _ if did_nothing => NOT_APPLIED,
        ErrorKind::Command(command) => outcome::of_command_error(command.code),
        ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => NOT_APPLIED,
        ErrorKind::InvalidArgument { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::BsonSerialization(_)
        | ErrorKind::SessionsNotSupported
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::Shutdown => REFUSED,
        // The connection broke, or the reply could not be read.
        _ => MAYBE_APPLIED,
    }
}

/// The failure of a write that is not confirmed: it may have been applied, and nothing more of it happens.
pub(crate) fn not_confirmed(Unconfirmed { message, .. }: Unconfirmed) -> Failure {
    Failure { outcome: MAYBE_APPLIED, cause: Cause::WriteConcern(message) }
}

/// The failure for a reply that is not what it should be.
pub(crate) fn decode_failure(error: DecodeError) -> Failure {
    let (outcome, cause) = match error {
        DecodeError::Write { source: StatementError { code, message }, outcome } => {
            (outcome, write_error(code, &message).map_or(Cause::Reply(message), Cause::Write))
        }
        DecodeError::Unsupported(missing) => {
            (Outcome { maybe_applied: true, advice: Advice::Stop }, Cause::Unsupported(missing))
        }
        DecodeError::Reply(message) => (MAYBE_APPLIED, Cause::Reply(message)),
    };
    Failure { outcome, cause }
}

/// The driver's form of the error of one statement. The driver does not build it for commands that are sent as
/// documents.
fn write_error(code: i32, message: &str) -> Option<DriverError> {
    let error = deserialized([("code", code.into()), ("errmsg", message.into())]).ok()?;
    Some(ErrorKind::Write(WriteFailure::WriteError(error)).into())
}

/// The driver's form of a command's error, for a store in memory.
#[cfg(feature = "memory")]
pub(crate) fn command_error(code: i32, code_name: &str) -> DriverError {
    let message = "a fault that a test has planned";
    let fields =
        [("code", code.into()), ("codeName", code_name.into()), ("errmsg", message.into())];
    match deserialized(fields) {
        Ok(error) => ErrorKind::Command(error).into(),
        // A later driver may need more fields.
        Err(error) => error,
    }
}

/// A part of the driver's errors, which only a deserializer can construct.
fn deserialized<'de, T: Deserialize<'de>>(
    fields: impl IntoIterator<Item = (&'static str, Bson)>,
) -> Result<T, DriverError> {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    let fields = Document::from_iter(fields);
    T::deserialize(Deserializer::new(fields.into())).map_err(DriverError::custom)
}
