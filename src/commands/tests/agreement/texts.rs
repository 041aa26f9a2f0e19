//! Converts the model's values and ids to texts of a real document, and back.

use std::time::Duration;

use super::server::{GrantId, NOBODY, Value};
use crate::rules::ids::{self, CallId};
use crate::rules::time::Instant;
use crate::rules::tombstone::{PREFIX, is_tombstone};

/// A value as a text that would be an expression if it were unquoted in a pipeline.
pub(super) fn text(value: Value) -> String {
    if value == NOBODY { PREFIX.to_owned() } else { format!("$value{}", value.0) }
}

/// The same; the value of no holder becomes the tombstone's own.
pub(super) fn held_text(value: Value, nobody: &str) -> String {
    if value == NOBODY { nobody.to_owned() } else { text(value) }
}

pub(super) fn read_value(text: &str) -> Value {
    if is_tombstone(text) {
        return NOBODY;
    }
    Value(text.strip_prefix("$value").unwrap().parse().unwrap())
}

pub(super) fn call(number: u8) -> CallId {
    CallId::from(&*format!("call{number}"))
}

pub(super) fn grant_id(id: GrantId) -> ids::GrantId {
    call(id.call).grant(id.attempt.into())
}

pub(super) fn read_id(text: &str) -> GrantId {
    let (call, attempt) = text.strip_prefix("call").unwrap().split_once('.').unwrap();
    GrantId { call: call.parse().unwrap(), attempt: attempt.parse().unwrap() }
}

pub(super) fn instant(sent: i64) -> Instant {
    Instant::from_nanos(u64::try_from(sent).unwrap())
}

pub(super) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap())
}
