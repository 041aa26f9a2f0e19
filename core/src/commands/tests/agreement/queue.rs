//! Queues, valid or corrupt, as they are written to a real document and read from it.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::spec::Share;
use mongo_lease_core_tests::Chance;

use super::small::{Details, Element, Entry, GrantId, Promoted, Queue, Value};
use super::steps::{HOUR, LIFE};
use super::texts::{grant_id, metadata, owner, read_details, read_id, read_value, text};

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
const INVALID: [Share; 4] = [
    Share { permits: 0, limit: 2 },
    Share { permits: -5, limit: 2 },
    Share { permits: 3, limit: 2 },
    Share { permits: 1, limit: 1_001 },
];

/// The value of an entry whose value is no string. Such an entry belongs to no call, and has a position in the queue.
pub(super) const NO_TEXT: Value = Value(201);

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
pub(super) fn choose(
    chance: &mut Chance,
    now: i64,
    share: impl Fn(&mut Chance) -> Share,
) -> Vec<Put> {
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
        let value = if chance.below(4) == 0 { chance.below(4) } else { first + place };
        let value = Value(u8::try_from(value).expect("a small number"));
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: 30 + value.0 };
        let mut entry = entry(value, id, now + chance.one_of(beats) * HOUR);
        entry.ttl = chance.one_of(&[2 * HOUR, 5 * HOUR]);
        entry.share = share(chance);
        if chance.below(4) == 0 {
            // It expires before its newest heartbeat.
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
            2 => Put::Entry(Entry { share: chance.one_of(&INVALID), ..entry }),
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
        share: Share::EXCLUSIVE,
        details: Details(7),
    }
}

/// The queue in the specification.
pub(super) fn queue_of(puts: &[Put]) -> Queue {
    // Written and read again: one function says what is corrupt.
    read(Some(&Bson::Array(written(puts))))
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
        "permits": entry.share.permits,
        "limit": entry.share.limit,
        "owner": owner(entry.details),
        "metadata": metadata(entry.details),
    }
}

/// Reads the queue of a real document.
pub(super) fn read(found: Option<&Bson>) -> Queue {
    match found {
        None => Queue::Absent,
        Some(Bson::Array(elements)) => Queue::List(elements.iter().map(read_element).collect()),
        Some(_) => Queue::Damaged,
    }
}

fn read_element(found: &Bson) -> Element {
    let Some(document) = found.as_document() else {
        return Element::Damaged(None);
    };
    let shown = document.get("value").map(|value| value.as_str().map_or(NO_TEXT, read_value));
    let is_sound = |entry: &Entry| {
        entry.ttl < i64::MAX && entry.max_clock_skew < i64::MAX && entry.share.is_valid()
    };
    match read_entry(document).filter(is_sound) {
        Some(entry) => Element::Entry(entry),
        None => Element::Damaged(shown),
    }
}

fn read_entry(document: &Document) -> Option<Entry> {
    let date = |field| document.get_datetime(field).ok().map(|at| at.timestamp_millis());
    let number = |field| document.get_i64(field).ok();
    Some(Entry {
        value: read_value(document.get_str("value").ok()?),
        id: read_id(document.get_str("id").ok()?),
        sent: number("sentMicros")?,
        heartbeat_at: date("heartbeatAt")?,
        expires_at: date("expiresAt")?,
        ttl: number("ttlMs")?,
        max_clock_skew: number("maxClockSkewMs")?,
        share: Share { permits: number("permits")?, limit: number("limit")? },
        details: read_details(document),
    })
}

/// `promoted` as the specification sees it. A recheck's times are the server's clock, and matter only by being there.
pub(super) fn read_promoted(text: &str) -> Promoted {
    let (id, sent) = text.rsplit_once('@').unwrap();
    let id = read_id(id);
    match sent.strip_prefix('!') {
        Some(millis) => {
            let times: Vec<i64> = millis.split('-').map(|time| time.parse().unwrap()).collect();
            assert!(times.len() <= 2, "{text}");
            Promoted::Recheck { id }
        }
        None => Promoted::Entry { id, sent: sent.parse().unwrap() },
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
