//! Builds the driver's form of one statement's error from a reply.

#[cfg(feature = "memory")]
use mongodb::error::CommandError;
use mongodb::error::{Error as DriverError, ErrorKind, WriteError, WriteFailure};
use serde::Deserialize;
use serde::de::value::{Error as NoWriteError, MapDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};

/// The driver's form of the error of one statement. The driver does not build it for commands that are sent as
/// documents.
pub(super) fn driver_write_error(code: i32, message: &str) -> Option<DriverError> {
    let fields = [("code", Field::Code(code)), ("errmsg", Field::Message(message))];
    let fields = MapDeserializer::<_, NoWriteError>::new(fields.into_iter());
    let error = WriteError::deserialize(fields).ok()?;
    Some(ErrorKind::Write(WriteFailure::WriteError(error)).into())
}

/// The driver's form of a command's error, for a store in memory.
#[cfg(feature = "memory")]
pub(crate) fn driver_command_error(code: i32, code_name: &'static str) -> DriverError {
    let fields = [
        ("code", Field::Code(code)),
        ("codeName", Field::Message(code_name)),
        ("errmsg", Field::Message("a fault that a test has planned")),
    ];
    let fields = MapDeserializer::<_, NoWriteError>::new(fields.into_iter());
    match CommandError::deserialize(fields) {
        Ok(error) => ErrorKind::Command(error).into(),
        // A later driver may need more fields.
        Err(error) => DriverError::custom(error.to_string()),
    }
}

/// A field of the driver's errors, which only a deserializer can construct.
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
