//! What is sent, word for word, and what is read from all kinds of replies. No server is needed.

mod agreement;
mod build;
mod damaged_queue;
mod decode;
mod every;
mod fuzz;
mod literals;
mod look_behind;
mod no_clock;
mod outcome;
mod paths;
mod seen;

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use super::acquire::{Acquire, Ask, Joins};
use super::beat::{Beat, InLine, Place};
use super::release::{Target, Which};
use super::renew::GrantKey;
use super::take::Take;
use super::tick::Tick;
use crate::rules::churn::Ask as First;
use crate::rules::time::Instant;
use crate::rules::timing::Timing;
use crate::rules::tombstone::TombstoneValues;

const SENT: Instant = Instant::from_nanos(7_000_000_001);

/// A call whose texts all look like expressions.
fn ask() -> Ask {
    Ask {
        collection: "locks".to_owned(),
        name: "$name".to_owned(),
        value: "$$NOW".to_owned(),
        call_id: "$call".to_owned(),
        owner: "$owner".to_owned(),
        metadata: doc! { "$meta": "$meta" },
        timing: Timing::new(Duration::from_secs(30), Duration::from_secs(1), None).unwrap(),
        has_oplog: true,
        joins: None,
    }
}

fn acquire() -> Acquire {
    Acquire { ask: Arc::new(ask()), attempt: 3, predecessor: None }
}

/// The same call's first attempt, in the short form.
fn take() -> Take {
    Take { ask: Arc::new(ask()), attempt: 3, first: First::LookUp, resends: 0 }
}

/// The same call where it waits in line.
fn joining() -> Acquire {
    let joins = Joins { life: Duration::from_secs(10), queue_max: 7 };
    Acquire { ask: Arc::new(Ask { joins: Some(joins), ..ask() }), attempt: 3, predecessor: None }
}

/// What is fresh in a real command.
fn values() -> TombstoneValues {
    TombstoneValues::new("fresh".to_owned())
}

/// Two places in line.
fn places() -> Vec<Place> {
    ["$$NOW", "$$ROOT"]
        .map(|value| Place { name: "$name".to_owned(), value: value.to_owned() })
        .to_vec()
}

fn beat() -> Beat {
    Beat { collection: "locks".to_owned(), places: places(), life: Duration::from_secs(10) }
}

fn in_line() -> InLine {
    InLine { collection: "locks".to_owned(), places: places() }
}

fn tick() -> Tick {
    Tick {
        collection: "locks".to_owned(),
        name: "$name".to_owned(),
        value: "$$NOW".to_owned(),
        grant_id: "$call.3".to_owned(),
    }
}

fn key() -> GrantKey {
    GrantKey::new("$name", "$$NOW", "$call.3")
}

fn target(grant: Which) -> Target {
    Target { name: "$name".to_owned(), value: "$$NOW".to_owned(), grant }
}

/// Every document and every other value within this one, itself included.
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
    let time = mongodb::bson::Timestamp { time: 1_700_000_000, increment: 5 };
    doc! { "value": document, "lastErrorObject": { "n": 1 }, "ok": 1.0, "operationTime": time }
}
