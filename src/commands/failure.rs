//! Why an attempt at a command failed, and what that says of its write.

use mongodb::bson::Document;
use mongodb::error::{Error as DriverError, ErrorKind};

use crate::rules::outcome::{MAYBE_APPLIED, Outcome, Then};

/// Why one attempt at a command has failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    pub(crate) cause: Cause,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The driver's error: the server's word, or its own.
    Driver(DriverError),
    /// A statement of the command failed: the driver's form of it, and what that says of the whole command.
    Write { source: DriverError, outcome: Outcome },
    /// The server did it, and could not say that it will last.
    WriteConcern(String),
    /// No answer in time.
    Deadline,
    /// An answer that cannot be understood.
    Reply(String),
    /// The server lacks what we need of it.
    Unsupported(String),
    /// The manager has been shut down.
    ShutDown,
}

impl Failure {
    /// The code of the server's error, if it was the server that said no.
    pub(crate) fn server_code(&self) -> Option<i32> {
        if let Cause::Driver(error) = &self.cause
            && let ErrorKind::Command(command) = error.kind.as_ref()
        {
            return Some(command.code);
        }
        None
    }

    /// Whether it was answered, and its write may have been applied: the server has cut it off, or could not say that
    /// it will last. Nothing of it is carried out after that.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_held_up() || matches!(self.cause, Cause::WriteConcern(_))
    }

    /// Whether the driver has found no server in all the time that its client gives it for that.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        matches!(&self.cause, Cause::Driver(error) if is_out_of_reach(error))
    }

    /// Whether the server itself said that something held the command up: then a part of it may go through.
    pub(crate) fn is_held_up(&self) -> bool {
        const MAX_TIME_MS_EXPIRED: i32 = 50;
        self.server_code() == Some(MAX_TIME_MS_EXPIRED)
    }

    /// The same failure, where an earlier or another attempt may have been applied all the same.
    pub(crate) fn or_maybe(mut self, maybe_applied: bool) -> Failure {
        self.outcome.maybe_applied |= maybe_applied;
        self
    }
}

/// Whether the driver has found no server that it could have sent the command to.
pub(crate) fn is_out_of_reach(error: &DriverError) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. })
}

/// A reply that says something else than it should.
pub(crate) fn decode_failure(cause: Cause) -> Failure {
    let outcome = match cause {
        Cause::Write { outcome, .. } => outcome,
        Cause::Unsupported(_) => Outcome { maybe_applied: true, then: Then::Stop },
        Cause::Driver(_)
        | Cause::WriteConcern(_)
        | Cause::Deadline
        | Cause::Reply(_)
        | Cause::ShutDown => MAYBE_APPLIED,
    };
    Failure { outcome, cause }
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
