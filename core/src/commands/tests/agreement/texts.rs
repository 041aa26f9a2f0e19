//! The types of the specification with texts, as the database has them, and the texts of all steps. Each would be an
//! expression if it were unquoted in a pipeline. There are few, which random steps hit again and again.

use std::sync::Arc;
use std::time::Duration;

use crate::bson::doc;
use crate::rules::ids::CallId;
use crate::rules::time::Instant;
use crate::spec;
use crate::texts::{Details, Texts};

pub(super) type AcquireAnswer = spec::AcquireAnswer<Texts>;
pub(super) type AcquireAttempt = spec::AcquireAttempt<Texts>;
pub(super) type Key = spec::OwnGrant<Texts>;

pub(super) fn value(number: u64) -> String {
    format!("$value{number}")
}

/// The value of another program.
pub(super) fn foreign() -> String {
    value(200)
}

pub(super) fn call(number: u32) -> CallId {
    CallId::from(&*format!("call{number}"))
}

pub(super) fn details(number: u8) -> Arc<Details> {
    let metadata = doc! { "$key": format!("$value{number}") };
    Arc::new(Details { owner: format!("$owner{number}"), metadata })
}

pub(super) fn instant(sent: i64) -> Instant {
    Instant::from_micros(u64::try_from(sent).unwrap())
}

pub(super) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap())
}
