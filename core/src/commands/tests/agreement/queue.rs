//! Queues, valid or corrupt, as they are written to a real document and read from it.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::spec::Types;
use mongo_lease_core_tests::Chance;

use super::names::Names;
use super::small::{Details, Element, Entry, GrantId, Queue, Small, Value};
use super::steps::{HOUR, LIFE};
use super::texts::{grant_id, metadata, owner, text};
use crate::commands::tests::reading;

/// The fields of an entry that are read.
const FIELDS: [&str; 9] = [
    "value",
    "id",
    "sentMicros",
    "heartbeatAt",
    "expiresAt",
    "ttlMs",
    "maxClockSkewMs",
    "permits",
    "limit",
];

/// Shares that no call may ask for.
const INVALID: [(i64, i64); 4] = [(0, 2), (-5, 2), (3, 2), (1, 1_001)];

/// An element that a step puts into a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Put {
    /// An entry, valid or with a share that no call may ask for.
    Entry(Entry),
    /// The same, with another type in this field, or without the field.
    Broken { entry: Entry, field: usize, is_missing: bool },
    /// An entry whose times are too long to be added.
    Endless { entry: Entry, is_ttl: bool },
    /// Not a document.
    Text,
}

/// A queue of up to three elements, at this time.
pub(super) fn choose(chance: &mut Chance, names: &Names, now: i64) -> Vec<Put> {
    let length = if chance.below(3) == 0 { 3 } else { chance.below(4) };
    // Dead, alive, and from ahead of the server's clock; or all of one kind.
    let beats: &[i64] = match chance.below(6) {
        0 => &[-10],
        1 | 2 => &[-1],
        3 => &[2],
        _ => &[-10, -1, -1, 2, 2],
    };
    let first = chance.below(4);
    let put = |place| {
        // In most cases each has a value of its own.
        let number = if chance.below(4) == 0 { chance.below(4) } else { first + place };
        let value = Value(u8::try_from(number).expect("a small number"));
        // No call has the value of nobody, or `mongo-lease/shared`.
        let is_callers = ![Small::nobody(), Small::shared()].contains(&names.held.value);
        let is_held = is_callers && chance.below(8) == 0;
        let value = if is_held { names.held.value } else { value };
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: 30 + value.0 % 8 };
        let mut entry = entry(value, id, now + chance.one_of(beats) * HOUR);
        entry.ttl = chance.one_of(&[2 * HOUR, 5 * HOUR]);
        if chance.below(4) > 0 {
            let permits = names.permits(chance);
            (entry.permits, entry.limit) = (permits.count().into(), permits.limit().into());
        }
        if chance.below(4) == 0 {
            // It expires before its newest heartbeat, and is often alive all the same.
            entry.heartbeat_at = now + chance.one_of(&[-1, 2, 2]) * HOUR;
            entry.expires_at = entry.heartbeat_at - HOUR;
        }
        match chance.below(8) {
            0 => {
                let field = chance.one_of(&[0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 7, 8, 8]);
                Put::Broken { entry, field, is_missing: chance.below(2) > 0 }
            }
            1 => {
                let endless = Put::Endless { entry, is_ttl: chance.below(2) > 0 };
                chance.one_of(&[endless, Put::Text])
            }
            2 => {
                let (permits, limit) = chance.one_of(&INVALID);
                Put::Entry(Entry { permits, limit, ..entry })
            }
            _ => Put::Entry(entry),
        }
    };
    (0..length).map(put).collect()
}

fn entry(value: Value, id: GrantId, heartbeat_at: i64) -> Entry {
    Entry {
        value,
        id,
        sent: 77,
        heartbeat_at,
        expires_at: heartbeat_at + LIFE,
        ttl: 2 * HOUR,
        max_clock_skew: HOUR,
        permits: 1,
        limit: 1,
        details: Details(7),
    }
}

/// The queue in the specification.
pub(super) fn queue_of(puts: &[Put]) -> Queue {
    // Written and read again: one function says what is corrupt.
    reading::queue(Some(&Bson::Array(written(puts))))
}

/// The queue in a real document.
pub(super) fn written(puts: &[Put]) -> Vec<Bson> {
    let written = |put: &Put| {
        let (Put::Entry(entry) | Put::Broken { entry, .. } | Put::Endless { entry, .. }) = *put
        else {
            return "entry".into();
        };
        let mut document = write(entry);
        match *put {
            Put::Broken { field, is_missing: true, .. } => drop(document.remove(FIELDS[field])),
            // A number, but not one that we write.
            Put::Broken { field, .. } => drop(document.insert(FIELDS[field], 1_i32)),
            Put::Endless { is_ttl, .. } => {
                let field = if is_ttl { "ttlMs" } else { "maxClockSkewMs" };
                drop(document.insert(field, i64::MAX));
            }
            Put::Entry(_) | Put::Text => {}
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
        "permits": entry.permits,
        "limit": entry.limit,
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
