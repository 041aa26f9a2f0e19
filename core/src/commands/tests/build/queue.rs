use crate::bson::{Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, beat, in_line};
use super::{entries, heartbeat_update, is_entry, is_sound, literal, simple, update};
use crate::commands::Command;
use crate::commands::heartbeat::{Heartbeat, QueueEntry};

/// The filter for leases whose queues may have an entry of ours.
fn ours_wait() -> Document {
    doc! {
        "name": { "$in": ["$name", "$name"] },
        "$expr": is_sound(),
        "queue": { "$type": "array" },
        "queue.value": { "$in": ["$$NOW", "$$ROOT"] },
    }
}

/// A statement of a heartbeat of the waiters with these values.
fn heartbeat_of(filter: Document, values: &[&str]) -> Document {
    let literals: Vec<Document> = values.iter().map(|value| literal(value)).collect();
    let is_ours = doc! { "$in": ["$$each.value", literals] };
    let is_to_be_changed = doc! { "$and": [is_entry(), is_ours] };
    let again = doc! { "$mergeObjects": ["$$each", heartbeat_update("$$each")] };
    let each = doc! { "$cond": [is_to_be_changed, again, "$$each"] };
    let queue = doc! { "$map": { "input": entries(), "as": "each", "in": each } };
    doc! {
        "q": filter,
        "u": [{ "$set": { "queue": queue } }],
        "multi": true,
        "collation": simple(),
    }
}

fn entry(name: &str, value: &str) -> QueueEntry {
    QueueEntry { name: name.to_owned(), value: value.to_owned() }
}

fn built(entries: &[(&str, &str)]) -> Document {
    let entries = entries.iter().map(|(name, value)| entry(name, value)).collect();
    Heartbeat { entries, ..beat() }.build("locks", SENT)
}

#[test]
fn a_beat_is_written_out() {
    let single = doc! {
        "name": { "$in": ["$name", "$other"] },
        "$expr": is_sound(),
        "queue": { "$type": "array" },
        "queue.value": { "$in": ["$$NOW", "$$ROOT"] },
    };
    let single = heartbeat_of(single, &["$$NOW", "$$ROOT"]);
    let alone = built(&[("$name", "$$NOW"), ("$other", "$$ROOT")]);
    assert_same(&alone, &update(vec![single.clone()], true));
    // The reply counts documents: one with several entries of ours must have all of them to be counted.
    let several = doc! {
        "name": "$both",
        "$expr": is_sound(),
        "queue": { "$type": "array" },
        "queue.value": { "$all": ["$a", "$b"] },
    };
    let several = heartbeat_of(several, &["$a", "$b"]);
    let mixed = [("$both", "$a"), ("$name", "$$NOW"), ("$both", "$b"), ("$other", "$$ROOT")];
    assert_same(&built(&mixed), &update(vec![single, several.clone()], false));
    assert_same(&built(&[("$both", "$a"), ("$both", "$b")]), &update(vec![several], true));
}

#[test]
fn the_look_at_who_is_in_line_is_written_out() {
    let ours = doc! { "$setIntersection": ["$queue.value", [literal("$$NOW"), literal("$$ROOT")]] };
    let wanted = doc! {
        "find": "locks",
        "filter": ours_wait(),
        "projection": { "_id": 0, "name": 1, "ours": ours },
        "limit": 2_i64,
        "batchSize": 2_i64,
        "singleBatch": true,
        "collation": simple(),
        "readConcern": { "level": "majority" },
    };
    assert_same(&in_line().build("locks", SENT), &wanted);
}
