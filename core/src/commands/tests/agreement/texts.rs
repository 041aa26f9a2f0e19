//! Converts the specification's values and ids to texts of a real document, and back.

use std::time::Duration;

use crate::bson::{Document, doc};
use crate::format::SHARED_VALUE;
use crate::rules::ids::{self, CallId};
use crate::rules::time::Instant;
use crate::rules::tombstone::{PREFIX, is_tombstone};
use crate::spec::Types;

use super::small::{Details, GrantId, Small, Value};
use crate::commands::tests::reading::Readable;

/// The value of an entry whose value is no string. Such an entry belongs to no call, and has a position in the queue.
pub(super) const NO_TEXT: Value = Value(201);

/// A value as a text that would be an expression if it were unquoted in a pipeline.
pub(super) fn text(value: Value) -> String {
    match value {
        value if value == Small::nobody() => PREFIX.to_owned(),
        value if value == Small::shared() => SHARED_VALUE.to_owned(),
        Value(number) => format!("$value{number}"),
    }
}

/// The same; the value of no holder becomes the tombstone's own.
pub(super) fn held_text(value: Value, nobody: &str) -> String {
    if value == Small::nobody() { nobody.to_owned() } else { text(value) }
}

fn read_value(text: &str) -> Value {
    if is_tombstone(text) {
        return Small::nobody();
    }
    if text == SHARED_VALUE {
        return Small::shared();
    }
    Value(text.strip_prefix("$value").unwrap().parse().unwrap())
}

/// The owner, as a text that would be a path if it were unquoted in a pipeline.
pub(super) fn owner(details: Details) -> String {
    format!("$owner{}", details.0)
}

/// Metadata that would be an expression if it were unquoted in a pipeline.
pub(super) fn metadata(details: Details) -> Document {
    doc! { "$key": format!("$value{}", details.0) }
}

/// Owner and metadata of a grant or an entry. Where they do not belong together, they are those that no step writes.
fn read_details(found: &Document) -> Details {
    let number = found.get_str("owner").ok().and_then(|owner| owner.strip_prefix("$owner"));
    let details = Details(number.and_then(|number| number.parse().ok()).unwrap_or(u8::MAX));
    let belongs = found.get_document("metadata").ok() == Some(&metadata(details));
    if belongs { details } else { Details(u8::MAX) }
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

impl Readable for Small {
    fn no_text() -> Value {
        NO_TEXT
    }

    fn no_id() -> GrantId {
        GrantId { call: u8::MAX, attempt: u8::MAX }
    }

    fn value(text: &str) -> Value {
        read_value(text)
    }

    fn id(text: &str) -> GrantId {
        read_id(text)
    }

    fn details(found: &Document) -> Details {
        read_details(found)
    }
}

pub(super) fn instant(sent: i64) -> Instant {
    Instant::from_micros(u64::try_from(sent).unwrap())
}

pub(super) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap())
}
