use mongodb::bson::{Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, beat, in_line};
use super::{entries, heartbeat_update, is_entry, literal, simple, update};
use crate::commands::Command;

/// The filter for leases whose queues may have an entry of ours.
fn ours_wait() -> Document {
    doc! {
        "name": { "$in": ["$name", "$name"] },
        "queue": { "$type": "array" },
        "queue.value": { "$in": ["$$NOW", "$$ROOT"] },
    }
}

#[test]
fn a_beat_is_written_out() {
    let is_ours = doc! { "$in": ["$$entry.value", [literal("$$NOW"), literal("$$ROOT")]] };
    let is_to_be_changed = doc! { "$and": [is_entry(), is_ours] };
    let again = doc! { "$mergeObjects": ["$$entry", heartbeat_update("$$entry")] };
    let each = doc! { "$cond": [is_to_be_changed, again, "$$entry"] };
    let queue = doc! { "$map": { "input": entries(), "as": "entry", "in": each } };
    let statement = doc! {
        "q": ours_wait(),
        "u": [{ "$set": { "queue": queue } }],
        "multi": true,
        "collation": simple(),
    };
    assert_same(&beat().build("locks", SENT), &update(vec![statement], true));
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
