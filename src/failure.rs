//! What a failed attempt says: whether the write has happened, and whether to try again.

use mongodb::bson::Document;
use mongodb::error::{Error as DriverError, ErrorKind, WriteError, WriteFailure};
use serde::Deserialize;
use serde::de::value::{Error as NoWriteError, MapDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};

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

/// The driver's form of the error of one statement. The driver reads it from a reply itself, but not from those of
/// commands that are given to it as documents.
pub(crate) fn driver_write_error(code: i32, message: &str) -> Option<DriverError> {
    let fields = [("code", Field::Code(code)), ("errmsg", Field::Message(message))];
    let fields = MapDeserializer::<_, NoWriteError>::new(fields.into_iter());
    let error = WriteError::deserialize(fields).ok()?;
    Some(ErrorKind::Write(WriteFailure::WriteError(error)).into())
}

/// A field of the driver's `WriteError`, which nobody but a deserializer can make.
enum Field<'a> {
    Code(i32),
    Message(&'a str),
}

impl<'de> IntoDeserializer<'de, NoWriteError> for Field<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Field<'_> {
    type Error = NoWriteError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoWriteError> {
        match self {
            Field::Code(code) => visitor.visit_i32(code),
            Field::Message(message) => visitor.visit_str(message),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}
