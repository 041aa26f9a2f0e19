//! Queues and lists of holders, valid or corrupt, as another program may have left them.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::spec::Types;
use mongo_lease_core_tests::Chance;

use super::names::Names;
use super::steps::{HOUR, LIFE};
use super::texts::{call, details, value};
use crate::rules::ids::GrantId;
use crate::texts::Texts;

/// The fields of an entry and of a holder that are read; those that are damaged more often come more often.
const ENTRY_FIELDS: &str = "value value id sentMicros sentMicros heartbeatAt expiresAt expiresAt \
                            ttlMs maxClockSkewMs permits permits limit limit";
const HOLDER_FIELDS: &str = "value id expiresAt expiresAt expiresAt ttlMs ttlMs maxClockSkewMs \
                             maxClockSkewMs permits limit writes writes";

/// Shares that no call may ask for.
const INVALID: [(i64, i64); 4] = [(0, 2), (-5, 2), (3, 2), (1, 1_001)];

/// The shares of holders.
const HELD: [(i64, i64); 8] =
    [(1, 3), (1, 3), (1, 1_000), (1, 1_000), (2, 2), (0, 3), (1, 1), (1, 5_000)];

/// A queue of up to three elements, at this time.
pub(super) fn queue(chance: &mut Chance, names: &Names, now: i64) -> Bson {
    let length = if chance.below(3) == 0 { 3 } else { chance.below(4) };
    // Dead, alive, and from ahead of the server's clock; or all of one kind.
    let beats: &[i64] = match chance.below(6) {
        0 => &[-10],
        1 | 2 => &[-1],
        3 => &[2],
        _ => &[-10, -1, -1, 2, 2],
    };
    let first = chance.below(4);
    let element = |place| {
        // In most cases each has a value of its own.
        let number = if chance.below(4) == 0 { chance.below(4) } else { first + place };
        // No call has the value of nobody, or `mongo-lease/shared`.
        let is_callers = ![Texts::nobody(), Texts::shared()].contains(&names.held.value);
        let is_held = is_callers && chance.below(8) == 0;
        let value = if is_held { names.held.value.clone() } else { value(number) };
        let number: u32 = value.strip_prefix("$value").unwrap().parse().expect("a number");
        let id = call(chance.one_of(&[1, 10])).grant(30 + number % 8);
        let mut entry = entry(&value, &id, now + chance.one_of(beats) * HOUR);
        entry.insert("ttlMs", chance.one_of(&[2 * HOUR, 5 * HOUR]));
        if chance.below(4) > 0 {
            let permits = names.permits(chance);
            entry.extend(share(permits.count().into(), permits.limit().into()));
        }
        if chance.below(4) == 0 {
            // It expires before its newest heartbeat, and is often alive all the same.
            let heartbeat_at = now + chance.one_of(&[-1, 2, 2]) * HOUR;
            entry.extend(times(heartbeat_at, heartbeat_at - HOUR));
        }
        damaged_entry(chance, entry)
    };
    Bson::Array((0..length).map(element).collect())
}

/// One of eight has a field of another type, or lacks one; another one is too long to be added to a date, or no
/// document; and another one has a share that no call may ask for.
fn damaged_entry(chance: &mut Chance, mut entry: Document) -> Bson {
    match chance.below(8) {
        0 => {
            let field = one_word(chance, ENTRY_FIELDS);
            match chance.below(2) > 0 {
                true => drop(entry.remove(field)),
                // A number, but not one that we write.
                false => drop(entry.insert(field, 1_i32)),
            }
        }
        1 => {
            let field = if chance.below(2) > 0 { "ttlMs" } else { "maxClockSkewMs" };
            entry.insert(field, i64::MAX);
            return chance.one_of(&[entry.into(), "entry".into()]);
        }
        2 => {
            let (permits, limit) = chance.one_of(&INVALID);
            entry.extend(share(permits, limit));
        }
        _ => {}
    }
    entry.into()
}

/// A list of up to three holders, and the latest of their expiries; without one, an hour ago.
pub(super) fn holders(chance: &mut Chance, now: i64) -> (Bson, DateTime) {
    let length = chance.below(4);
    let is_corrupt = chance.below(2) == 0;
    let hours: &[i64] = if chance.below(4) == 0 { &[-6] } else { &[-6, 3, 3, 6] };
    let element = |place| {
        // In most cases each has a value and an id of its own.
        let own = u32::try_from(place).expect("a small number");
        let value = value(chance.one_of(&[place, place, place, 0, 7]));
        let id = call(chance.one_of(&[1, 10])).grant(3 + own);
        let mut holder = holder(&value, &id, now + chance.one_of(hours) * HOUR);
        let (permits, limit) = chance.one_of(&HELD);
        match chance.below(6) {
            0 if is_corrupt => return "holder".into(),
            1..=3 if is_corrupt => damage_holder(chance, &mut holder),
            _ => holder.extend(share(permits, limit)),
        }
        holder.into()
    };
    let list: Vec<Bson> = (0..length).map(element).collect();
    let documents = list.iter().filter_map(Bson::as_document);
    let latest = documents.filter_map(|it| it.get_datetime("expiresAt").ok().copied()).max();
    let latest = latest.unwrap_or_else(|| DateTime::from_millis(now - HOUR));
    (Bson::Array(list), latest)
}

/// A field is missing, has another type, or is a time that is too long to be added to a date.
fn damage_holder(chance: &mut Chance, holder: &mut Document) {
    let field = one_word(chance, HOLDER_FIELDS);
    let other = if ["value", "id"].contains(&field) { Bson::Int32(1) } else { "a text".into() };
    let endless = if field.ends_with("Ms") { Bson::Int64(i64::MAX) } else { other.clone() };
    match chance.one_of(&[None, None, Some(Bson::Int32(1)), Some(other), Some(endless)]) {
        None => drop(holder.remove(field)),
        Some(other) => drop(holder.insert(field, other)),
    }
}

fn one_word<'a>(chance: &mut Chance, words: &'a str) -> &'a str {
    chance.one_of(&words.split(' ').collect::<Vec<_>>())
}

fn share(permits: i64, limit: i64) -> Document {
    doc! { "permits": permits, "limit": limit }
}

fn times(heartbeat_at: i64, expires_at: i64) -> Document {
    let [heartbeat_at, expires_at] = [heartbeat_at, expires_at].map(DateTime::from_millis);
    doc! { "heartbeatAt": heartbeat_at, "expiresAt": expires_at }
}

/// The fields that an entry and a holder have in common.
fn grant(value: &str, id: &GrantId, ttl: i64) -> Document {
    let details = details(7);
    doc! {
        "value": value,
        "id": id.as_str(),
        "sentMicros": 77_i64,
        "ttlMs": ttl,
        "maxClockSkewMs": HOUR,
        "owner": &details.owner,
        "metadata": details.metadata.clone(),
    }
}

fn entry(value: &str, id: &GrantId, heartbeat_at: i64) -> Document {
    let mut entry = grant(value, id, 2 * HOUR);
    entry.extend(share(1, 1));
    entry.extend(times(heartbeat_at, heartbeat_at + LIFE));
    entry
}

fn holder(value: &str, id: &GrantId, expires_at: i64) -> Document {
    let mut holder = grant(value, id, 4 * HOUR);
    holder.extend(share(1, 3));
    holder.extend(doc! {
        "acquiredAt": DateTime::from_millis(expires_at - 5 * HOUR),
        "expiresAt": DateTime::from_millis(expires_at),
        "writes": 9_i64,
    });
    holder
}
