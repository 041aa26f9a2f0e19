//! Holders, valid or corrupt, as they are written to a real document and read from it.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::spec::Holders;
use mongo_lease_core_tests::Chance;

use super::small::{Details, GrantId, Small, Value};
use super::steps::HOUR;
use super::texts::{grant_id, metadata, owner, text};
use crate::commands::tests::reading;

/// The fields of a holder that are read, and the count of its writes.
const FIELDS: [&str; 8] =
    ["value", "id", "expiresAt", "ttlMs", "maxClockSkewMs", "permits", "limit", "writes"];

/// A damage to one field of a holder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Damage {
    Missing,
    /// A number of another type.
    Number,
    /// A text; for texts, a number.
    Text,
    /// A number that is too large to be added to a date; for what is no time, a text.
    Endless,
}

/// An element that a step puts into the list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Put {
    /// A holder that expires so many hours from now.
    Holder { value: Value, id: GrantId, hours: i64, permits: i64, limit: i64 },
    /// The same, with a damage to this field.
    Broken { value: Value, id: GrantId, hours: i64, field: usize, damage: Damage },
    /// Not a document.
    Text,
}

impl Put {
    /// A list of up to three elements.
    pub(super) fn choose(chance: &mut Chance) -> Vec<Put> {
        let length = chance.below(4);
        let is_corrupt = chance.below(2) == 0;
        let hours: &[i64] = if chance.below(4) == 0 { &[-6] } else { &[-6, 3, 3, 6] };
        let put = |place| {
            // In most cases each has a value and an id of its own.
            let own = u8::try_from(place).expect("a small number");
            let value = chance.one_of(&[Value(own), Value(own), Value(own), Value(0), Value(7)]);
            let id = GrantId { call: chance.one_of(&[1, 10]), attempt: 3 + own };
            let hours = chance.one_of(hours);
            let (permits, limit) = chance.one_of(&[
                (1, 3),
                (1, 3),
                (1, 1_000),
                (1, 1_000),
                (2, 2),
                (0, 3),
                (1, 1),
                (1, 5_000),
            ]);
            match chance.below(6) {
                0 if is_corrupt => Put::Text,
                1..=3 if is_corrupt => {
                    let field = chance.one_of(&[0, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 7]);
                    let damage = chance.one_of(&[
                        Damage::Missing,
                        Damage::Missing,
                        Damage::Number,
                        Damage::Text,
                        Damage::Endless,
                    ]);
                    Put::Broken { value, id, hours, field, damage }
                }
                _ => Put::Holder { value, id, hours, permits, limit },
            }
        };
        (0..length).map(put).collect()
    }

    /// Its expiry, where that is a date.
    fn expires_at(&self, now: i64) -> Option<i64> {
        match *self {
            Put::Holder { hours, .. } => Some(now + hours * HOUR),
            Put::Broken { field: 2, .. } | Put::Text => None,
            Put::Broken { hours, .. } => Some(now + hours * HOUR),
        }
    }
}

/// The latest expiry of these holders; without one, an hour ago.
pub(super) fn latest(puts: &[Put], now: i64) -> i64 {
    puts.iter().filter_map(|put| put.expires_at(now)).max().unwrap_or(now - HOUR)
}

/// The list in the specification.
pub(super) fn holders_of(puts: &[Put], now: i64) -> Holders<Small> {
    // Written and read again: one function says what is corrupt.
    reading::holders(Some(&Bson::Array(written(puts, now))))
}

/// The list in a real document.
pub(super) fn written(puts: &[Put], now: i64) -> Vec<Bson> {
    let each = |put: &Put| match *put {
        Put::Text => Bson::from("holder"),
        Put::Holder { value, id, hours, permits, limit } => {
            write(value, id, now + hours * HOUR, permits, limit).into()
        }
        Put::Broken { value, id, hours, field, damage } => {
            let mut document = write(value, id, now + hours * HOUR, 1, 3);
            let name = FIELDS[field];
            let (is_text, is_time) = (field < 2, name.ends_with("Ms"));
            let other = match damage {
                Damage::Missing => None,
                Damage::Number => Some(Bson::Int32(1)),
                Damage::Text | Damage::Endless if is_text => Some(Bson::Int32(1)),
                Damage::Endless if is_time => Some(Bson::Int64(i64::MAX)),
                Damage::Text | Damage::Endless => Some(Bson::from("a text")),
            };
            match other {
                None => drop(document.remove(name)),
                Some(other) => drop(document.insert(name, other)),
            }
            document.into()
        }
    };
    puts.iter().map(each).collect()
}

fn write(value: Value, id: GrantId, expires_at: i64, permits: i64, limit: i64) -> Document {
    doc! {
        "value": text(value),
        "id": grant_id(id).as_str(),
        "sentMicros": 77_i64,
        "owner": owner(Details(7)),
        "acquiredAt": DateTime::from_millis(expires_at - 5 * HOUR),
        "expiresAt": DateTime::from_millis(expires_at),
        "ttlMs": 4 * HOUR,
        "maxClockSkewMs": HOUR,
        "metadata": metadata(Details(7)),
        "permits": permits,
        "limit": limit,
        "writes": 9_i64,
    }
}
