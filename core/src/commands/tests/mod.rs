//! How commands are built, and the decoding of all kinds of replies. No server is needed.

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
mod options;
mod outcome;
mod page_plan;
mod paths;
mod reading;
mod snapshot;
mod unconfirmed;
mod variables;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::rules::guesses::FastForm;
use crate::rules::permits::Permits;
use crate::rules::time::Instant;
use crate::rules::timing::Timing;
use crate::rules::tombstone::TombstoneValues;
use mongo_lease_testbed::{Server, TestDatabase};

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

/// The third attempt of this call, in its slow form.
fn slow(request: AcquireRequest) -> SlowAcquire {
    SlowAcquire { request: Arc::new(request), attempt_no: 3, predecessor: None }
}

/// The same attempt in its fast form.
fn fast(request: AcquireRequest) -> FastAcquire {
    let (form, request) = (FastForm::LookUp, Arc::new(request));
    FastAcquire { request, attempt_no: 3, form, resends: 0, first_sent: None }
}

/// How a call waits in the queue.
const JOINS: QueueOptions = QueueOptions { waiter_ttl: 10_000, max_waiting: 7 };

fn take() -> FastAcquire {
    fast(request())
}

/// A call that does not wait, one that does, and one on a server without an oplog.
fn requests(permits: Permits) -> [AcquireRequest; 3] {
    [(None, true), (Some(JOINS), true), (None, false)].map(|(joins, has_oplog)| AcquireRequest {
        permits,
        joins,
        has_oplog,
        ..request()
    })
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

/// An entry of this value in the queue of each name.
fn entries(of: &[(&str, &str)]) -> Vec<QueueEntry> {
    let entry = |(name, value): &(&str, &str)| QueueEntry {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    of.iter().map(entry).collect()
}

fn beat() -> Heartbeat {
    let entries = entries(&[("$name", "$$NOW"), ("$name", "$$ROOT")]);
    Heartbeat { entries, waiter_ttl: Duration::from_secs(10) }
}

fn in_line() -> FindEntries {
    FindEntries { entries: beat().entries }
}

fn key() -> GrantKey {
    GrantKey::new("$name", "$$NOW", &"$call.3".into())
}

fn tick() -> StandaloneToken {
    StandaloneToken { key: key() }
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

/// The time of each reply, and so the token of what it grants.
const TOKEN: Timestamp = Timestamp { time: 1_700_000_000, increment: 5 };
/// The server's clock in the replies.
const SERVER_NOW: DateTime = DateTime::from_millis(1_700_000_000_000);

/// The document of a lease held with this value by this grant for 31 seconds more, as the projection shows it.
fn held(value: &str, grant_id: &str) -> Document {
    doc! {
        "name": "$name",
        "value": value,
        "now": SERVER_NOW,
        "expiresAt": DateTime::from_millis(1_700_000_031_000),
        "waiting": 2,
        "ahead": 1,
        "grant": {
            "value": value, "id": grant_id, "sentMicros": 5_i64, "owner": "test@host:1",
            "acquiredAt": SERVER_NOW, "ttlMs": 30_000_i64, "metadata": { "x": 1 },
        },
    }
}

/// A holder of a lease that several hold. It expires so many seconds after the time of the replies.
fn holder(value: &str, seconds: i64, permits: i64, limit: i64) -> Document {
    doc! {
        "value": value, "id": format!("{value}.1"), "sentMicros": 5_i64,
        "owner": format!("{value}@host:1"), "acquiredAt": SERVER_NOW,
        "expiresAt": DateTime::from_millis(SERVER_NOW.timestamp_millis() + seconds * 1_000),
        "ttlMs": 30_000_i64, "maxClockSkewMs": 1_000_i64, "metadata": { "of": value },
        "permits": permits, "limit": limit, "writes": 1_i64,
    }
}

/// The document with another value in this field.
fn with(mut document: Document, field: &str, value: impl Into<Bson>) -> Document {
    document.insert(field, value);
    document
}

/// A reply of a `findAndModify`.
fn found(document: impl Into<Bson>) -> Document {
    doc! { "value": document, "lastErrorObject": { "n": 1 }, "ok": 1.0, "operationTime": TOKEN }
}

/// A database of a real server with the unique index on the names of leases.
async fn database() -> TestDatabase {
    let database = Server::shared().database().await;
    let unique = doc! { "key": { "name": 1 }, "name": "name_1", "unique": true };
    let create = doc! { "createIndexes": "locks", "indexes": [unique] };
    database.run_command(create).await.unwrap();
    database
}

/// The files in this folder of `commands` with such an extension.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|it| it == extension)).collect()
}
