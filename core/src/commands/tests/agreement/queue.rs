//! Queues, valid or corrupt, as they are written to a real document and read from it.

use crate::bson::{Bson, DateTime, Document, doc};
use mongo_lease_core_tests::Chance;

use super::real::{grant_id, text};
use super::small::{Details, Element, Entry, GrantId, Queue, Value};
use super::steps::{HOUR, LIFE};
use super::texts::{NO_TEXT, metadata, owner};

/// The fields of an entry that are read.
const FIELDS: [&str; 7] =
    ["value", "id", "sentMicros", "heartbeatAt", "expiresAt", "ttlMs", "maxClockSkewMs"];

/// An element that a step puts into a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Put {
    /// An entry whose newest heartbeat came so many hours from now.
    Entry { value: Value, id: GrantId, beaten: i64, ttl: i64 },
    /// The same, with another type in this field, or without the field.
    Broken { value: Value, field: usize, is_missing: bool },
    /// An entry whose times are too long to be added.
    Endless { value: Value },
    /// Not a document.
    Text,
}

/// A queue of up to three elements.
pub(super) fn choose(chance: &mut Chance) -> Vec<Put> {
    let length = chance.below(4);
    // Dead, alive, and from ahead of the server's clock; or all dead.
    let beats: &[i64] = if chance.below(4) == 0 { &[-10] } else { &[-10, -1, -1, 2, 2] };
    let put = |_| {
        let value = chance.one_of(&[Value(0), Value(1), Value(2), Value(3)]);
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: 3 };
        let beaten = chance.one_of(beats);
        let ttl = chance.one_of(&[2 * HOUR, 5 * HOUR]);
        match chance.below(8) {
            0 => {
                let field = chance.one_of(&[0, 0, 0, 1, 2, 3, 4, 5, 6]);
                Put::Broken { value, field, is_missing: chance.below(2) > 0 }
            }
            1 => chance.one_of(&[Put::Endless { value }, Put::Text]),
            _ => Put::Entry { value, id, beaten, ttl },
        }
    };
    (0..length).map(put).collect()
}

/// The queue in the specification.
pub(super) fn queue_of(puts: &[Put], now: i64) -> Queue {
    Queue::List(puts.iter().map(|put| element(*put, now)).collect())
}

fn element(put: Put, now: i64) -> Element {
    match put {
        Put::Entry { value, id, beaten, ttl } => Element::Entry(entry(value, id, now, beaten, ttl)),
        Put::Broken { field: 0, is_missing: false, .. } => Element::Damaged(Some(NO_TEXT)),
        Put::Broken { field: 0, .. } | Put::Text => Element::Damaged(None),
        Put::Broken { value, .. } | Put::Endless { value } => Element::Damaged(Some(value)),
    }
}

fn entry(value: Value, id: GrantId, now: i64, beaten: i64, ttl: i64) -> Entry {
    let heartbeat_at = now + beaten * HOUR;
    let expires_at = heartbeat_at + LIFE;
    Entry {
        value,
        id,
        sent: 77,
        heartbeat_at,
        expires_at,
        ttl,
        max_clock_skew: HOUR,
        share: None,
        details: Details(7),
    }
}

/// The queue in a real document.
pub(super) fn written(puts: &[Put], now: i64) -> Vec<Bson> {
    let written = |put: &Put| {
        let sound = |value| write(entry(value, GrantId { call: 1, attempt: 3 }, now, -1, HOUR));
        let mut document = match *put {
            Put::Text => return "entry".into(),
            Put::Entry { value, id, beaten, ttl } => write(entry(value, id, now, beaten, ttl)),
            Put::Broken { value, .. } | Put::Endless { value } => sound(value),
        };
        match *put {
            Put::Broken { field, is_missing: true, .. } => drop(document.remove(FIELDS[field])),
            // A number, but not one that we write.
            Put::Broken { field, .. } => drop(document.insert(FIELDS[field], 1_i32)),
            Put::Endless { .. } => drop(document.insert("ttlMs", i64::MAX)),
            Put::Entry { .. } | Put::Text => {}
        }
        document.into()
    };
    puts.iter().map(written).collect()
}

fn write(entry: Entry) -> Document {
    doc! {
        "value": text(entry.value),
        "id": grant_id(entry.id).as_str(),
        "sentMicros": entry.sent,
        "heartbeatAt": DateTime::from_millis(entry.heartbeat_at),
        "expiresAt": DateTime::from_millis(entry.expires_at),
        "ttlMs": entry.ttl,
        "maxClockSkewMs": entry.max_clock_skew,
        "owner": owner(entry.details),
        "metadata": metadata(entry.details),
    }
}

/// The queue with each entry changed.
pub(super) fn map_entries(queue: &Queue, change: impl Fn(Entry) -> Entry) -> Queue {
    match queue {
        Queue::List(elements) => {
            let each = |element: &Element| match element {
                Element::Entry(entry) => Element::Entry(change(*entry)),
                Element::Damaged(value) => Element::Damaged(*value),
            };
            Queue::List(elements.iter().map(each).collect())
        }
        Queue::Absent | Queue::Damaged => queue.clone(),
    }
}
