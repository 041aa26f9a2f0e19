//! The commands, word for word, and the decoding of all kinds of replies. No server is needed.

mod agreement;
mod build;
mod damaged_queue;
mod decode;
mod every;
mod format_page;
mod fuzz;
mod holders;
mod literals;
mod look_behind;
mod no_clock;
mod outcome;
mod page_plan;
mod paths;
mod reading;
mod snapshot;
mod variables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bson::{Bson, Document, doc};
use crate::rules::guesses::FastForm;
use crate::rules::permits::Permits;
use crate::rules::time::Instant;
use crate::rules::timing::Timing;
use crate::rules::tombstone::TombstoneValues;

use super::acquire::{AcquireRequest, QueueOptions, SlowAcquire};
use super::fast_acquire::FastAcquire;
use super::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use super::release::{Form, GrantMatch, ReleaseTarget};
use super::renew::{GrantKey, Guard, RenewalTarget, Resume, StandaloneToken};

const SENT: Instant = Instant::from_micros(7_000_001);

/// A call whose texts all look like expressions.
fn request() -> AcquireRequest {
    let timing = Timing::new(Duration::from_secs(30), Duration::from_secs(1), None).unwrap();
    AcquireRequest {
        name: "$name".to_owned(),
        value: "$$NOW".to_owned(),
        call_id: "$call".into(),
        owner: "$owner".into(),
        metadata: doc! { "$meta": "$meta" },
        permits: Permits::EXCLUSIVE,
        timing: Arc::new(timing),
        has_oplog: true,
        joins: None,
    }
}

fn acquire() -> SlowAcquire {
    SlowAcquire { request: Arc::new(request()), attempt_no: 3, predecessor: None }
}

/// The same call's first attempt, by the fast path.
fn take() -> FastAcquire {
    FastAcquire {
        request: Arc::new(request()),
        attempt_no: 3,
        form: FastForm::LookUp,
        resends: 0,
        first_sent: None,
    }
}

/// The same call when it waits in the queue.
fn joining() -> SlowAcquire {
    let joins = QueueOptions { waiter_ttl: 10_000, max_waiting: 7 };
    SlowAcquire {
        request: Arc::new(AcquireRequest { joins: Some(joins), ..request() }),
        attempt_no: 3,
        predecessor: None,
    }
}

/// The values that are fresh in a real command.
fn values() -> TombstoneValues {
    TombstoneValues::new("fresh".to_owned())
}

/// Values that no other command has, as in a real release.
fn fresh_values() -> TombstoneValues {
    static COMMANDS: AtomicU64 = AtomicU64::new(0);
    TombstoneValues::new(COMMANDS.fetch_add(1, Ordering::Relaxed).to_string())
}

/// Two queue entries.
fn places() -> Vec<QueueEntry> {
    ["$$NOW", "$$ROOT"]
        .map(|value| QueueEntry { name: "$name".to_owned(), value: value.to_owned() })
        .to_vec()
}

fn beat() -> Heartbeat {
    Heartbeat { entries: places(), waiter_ttl: Duration::from_secs(10) }
}

fn in_line() -> FindEntries {
    FindEntries { entries: places() }
}

fn tick() -> StandaloneToken {
    StandaloneToken { key: GrantKey::new("$name", "$$NOW", &"$call.3".into()) }
}

fn key() -> GrantKey {
    GrantKey::new("$name", "$$NOW", &"$call.3".into())
}

/// A grant that is renewed for 31 seconds.
fn renewed() -> RenewalTarget {
    RenewalTarget { key: key().into(), lasts: Duration::from_secs(31) }
}

fn guard() -> Guard {
    Guard { key: key().into(), lasts: Duration::from_secs(31) }
}

/// A resume that keeps the ttl, by a manager with a ttl of 30 seconds and a maximum clock skew of 1.
fn resume(fresh_id: &str) -> Resume {
    Resume { key: key(), fresh_id: fresh_id.into(), ttl: None, timing: request().timing }
}

fn target(grant: GrantMatch) -> ReleaseTarget {
    ReleaseTarget { name: "$name".to_owned(), value: "$$NOW".to_owned(), grant, form: Form::Plain }
}

/// Visits this value and every value within it.
fn walk(value: &Bson, visit: &mut impl FnMut(&Bson)) {
    visit(value);
    if let Some(document) = value.as_document() {
        document.iter().for_each(|(_, inner)| walk(inner, visit));
    }
    if let Some(array) = value.as_array() {
        array.iter().for_each(|inner| walk(inner, visit));
    }
}

/// A reply of a `findAndModify`.
fn found(document: impl Into<Bson>) -> Document {
    let time = crate::bson::Timestamp { time: 1_700_000_000, increment: 5 };
    doc! { "value": document, "lastErrorObject": { "n": 1 }, "ok": 1.0, "operationTime": time }
}
