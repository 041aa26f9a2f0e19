use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, target, values};
use super::{filtered, is_sound, without_empty_queue};
use super::{is_waited_for, line_without, literal, majority, one_more, simple, update};
use crate::commands::Command;
use crate::commands::release::{GrantMatch, HandOff, HandOffTo, Release, ReleaseLater};
use crate::commands::tombstone::Tombstone;

/// Each way to select a grant.
fn whiches() -> [GrantMatch; 4] {
    [
        GrantMatch::Any,
        GrantMatch::Grant("$call.3".into()),
        GrantMatch::Call { call_id: "$call".into(), except: None },
        GrantMatch::Call { call_id: "$call".into(), except: Some("$call.2".into()) },
    ]
}

/// The filter for each of them.
fn filters() -> [Document; 4] {
    let of_call = doc! { "$gte": "$call.", "$lt": "$call/" };
    let but_for_one = doc! { "$gte": "$call.", "$lt": "$call/", "$ne": "$call.2" };
    let ids = [None, Some("$call.3".into()), Some(of_call.into()), Some(but_for_one.into())];
    ids.map(|id: Option<Bson>| {
        let mut query = doc! { "name": "$name", "value": "$$NOW" };
        if let Some(id) = id {
            query.insert("grant.id", id);
        }
        query
    })
}

/// The same as conditions within a pipeline.
fn conditions() -> [Document; 4] {
    let value = doc! { "$eq": ["$value", literal("$$NOW")] };
    let grant = doc! { "$eq": ["$grant.id", literal("$call.3")] };
    let from = doc! { "$gte": ["$grant.id", literal("$call.")] };
    let to = doc! { "$lt": ["$grant.id", literal("$call/")] };
    let not = doc! { "$ne": ["$grant.id", literal("$call.2")] };
    [
        value.clone(),
        doc! { "$and": [value.clone(), grant] },
        doc! { "$and": [value.clone(), { "$and": [from.clone(), to.clone()] }] },
        doc! { "$and": [value, { "$and": [from, to, not] }] },
    ]
}

#[test]
fn release_is_written_out() {
    let delete = |mut query: Document| {
        // The queue has no entry, live or expired: this command is the cheap one.
        query.insert("$expr", is_sound());
        query.insert("queue.0", doc! { "$exists": false });
        doc! { "q": query, "limit": 1, "collation": simple() }
    };
    let wanted = doc! {
        "delete": "locks",
        "deletes": filters().map(delete).to_vec(),
        "ordered": false,
        "writeConcern": majority(),
    };
    let targets = whiches().map(target).to_vec();
    assert_same(&Release { targets }.build("locks", SENT), &wanted);
}

/// The same filters; and the document of a lease that has no holder and has expired by every clock.
#[test]
fn a_tombstone_is_written_out() {
    let tombstone = |(place, mut query): (usize, Document)| {
        query.insert("$expr", is_sound());
        query.insert("queue.0", doc! { "$exists": false });
        let expired = DateTime::from_millis(0);
        let value = format!("released:fresh.{place}");
        let left = doc! { "name": "$name", "value": value, "expiresAt": expired };
        doc! { "q": query, "u": left, "collation": simple() }
    };
    let targets = whiches().map(target).to_vec();
    let command = Tombstone { targets, values: values() };
    let statements = filters().into_iter().enumerate().map(tombstone).collect();
    assert_same(&command.build("locks", SENT), &update(statements, false));
}

/// The fields that a promotion changes.
fn promoted() -> Document {
    let life = doc! { "$subtract": ["$$head.expiresAt", "$$head.heartbeatAt"] };
    let term = doc! { "$max": [0_i64, { "$min": ["$$head.ttlMs", life] }] };
    let from = doc! { "$max": ["$$NOW", "$$head.heartbeatAt"] };
    let sent = doc! { "$toString": "$$head.sentMicros" };
    doc! {
        "value": "$$head.value",
        "grant": {
            "value": "$$head.value",
            "id": "$$head.id",
            "sentMicros": "$$head.sentMicros",
            "owner": "$$head.owner",
            "acquiredAt": "$$NOW",
            "ttlMs": "$$head.ttlMs",
            "maxClockSkewMs": "$$head.maxClockSkewMs",
            "metadata": "$$head.metadata",
            "writes": one_more(),
        },
        "expiresAt": { "$add": [from, term, "$$head.maxClockSkewMs"] },
        "promoted": { "$concat": ["$$head.id", "@", sent] },
        "queue": filtered("$$line", doc! { "$ne": ["$$entry.value", "$$head.value"] }),
    }
}

/// The stages that hand off if this condition holds, and remove the holder's entry from the queue in any case.
///
/// A queue in which somebody waits for a share is left to another command, and so is a lease in shared use to which a
/// value alone may refer.
fn handed_on(place: usize, holds: Document, is_by_value: bool) -> Vec<Document> {
    let value = format!("released:fresh.{place}");
    let ended = doc! { "value": value, "expiresAt": "$$NOW", "queue": [] };
    let next = doc! { "$cond": [{ "$eq": ["$$line", []] }, ended, promoted()] };
    let next = doc! { "$cond": [holds, next, { "queue": "$$line" }] };
    let head = doc! { "$arrayElemAt": ["$$line", 0] };
    let changed = doc! { "$mergeObjects": ["$$ROOT", next] };
    let changed = doc! { "$let": { "vars": { "head": head }, "in": changed } };
    let changed = doc! { "$let": { "vars": { "line": line_without("$$NOW") }, "in": changed } };
    let has_limits = doc! { "$ne": [{ "$ifNull": ["$queue.limit", []] }, []] };
    if !is_by_value {
        let changed = doc! { "$cond": [has_limits, "$$ROOT", changed] };
        return vec![doc! { "$replaceWith": changed }, without_empty_queue()];
    }
    let is_shared = doc! { "$eq": ["$value", "mongo-lease/shared"] };
    let is_left = doc! { "$or": [has_limits, is_shared] };
    let is_held = doc! { "$ne": ["$value", "mongo-lease/shared"] };
    let goes = doc! { "$and": [is_held, { "$eq": ["$queue", []] }] };
    let queue = doc! { "$cond": [goes, "$$REMOVE", "$queue"] };
    let changed = doc! { "$cond": [is_left, "$$ROOT", changed] };
    vec![doc! { "$replaceWith": changed }, doc! { "$set": { "queue": queue } }]
}

/// The command that hands off each of the four kinds of targets, with these filters.
fn hand_off(queries: [Document; 4]) -> Document {
    hand_off_of(queries, false)
}

/// The same. The first kind names a value alone.
fn hand_off_of(queries: [Document; 4], ends_shares_by_value: bool) -> Document {
    let statement = |(place, (query, holds)): (usize, (Document, Document))| {
        doc! {
            "q": query,
            "u": handed_on(place, holds, ends_shares_by_value && place == 0),
            "collation": simple(),
        }
    };
    update(queries.into_iter().zip(conditions()).enumerate().map(statement).collect(), false)
}

fn built(to: HandOffTo) -> Document {
    let targets = whiches().map(target).to_vec();
    HandOff { targets, to, values: values() }.build("locks", SENT)
}

#[test]
fn a_hand_over_to_somebody_is_written_out() {
    let queries = filters().map(|mut query| {
        query.insert("$expr", doc! { "$and": [is_sound(), is_waited_for("$$NOW")] });
        query
    });
    assert_same(&built(HandOffTo::LiveWaiter), &hand_off(queries));
}

#[test]
fn a_hand_over_to_anybody_is_written_out() {
    let mut queries = filters().map(|mut query| {
        query.insert("$expr", is_sound());
        query
    });
    // A holder of a share is found too.
    let shares = doc! {
        "value": "mongo-lease/shared",
        "holders": { "$elemMatch": { "value": "$$NOW" } },
    };
    queries[0] =
        doc! { "name": "$name", "$or": [{ "value": "$$NOW" }, shares], "$expr": is_sound() };
    assert_same(&built(HandOffTo::LiveWaiterOrNobody), &hand_off_of(queries, true));
}

#[test]
fn a_hand_over_by_who_may_stand_in_line_is_written_out() {
    let queries = filters().map(|mut query| {
        query.remove("name");
        let waits = doc! { "queue": { "$type": "array" }, "queue.value": "$$NOW" };
        doc! { "name": "$name", "$or": [query, waits], "$expr": is_sound() }
    });
    assert_same(&built(HandOffTo::AfterLeavingQueue), &hand_off(queries));
}

#[test]
fn a_release_that_is_put_off_is_written_out() {
    let until = doc! { "$add": ["$grant.acquiredAt", 1_500_i64] };
    let is_date = doc! { "$eq": [{ "$type": "$grant.acquiredAt" }, "date"] };
    // The first waiter has to be notified: the time for which it waits has changed.
    let millis = doc! { "$toString": { "$toLong": "$$NOW" } };
    let text = doc! { "$concat": ["$$head.id", "@!", millis] };
    let somebody_waits = doc! { "$eq": [{ "$type": "$$head" }, "object"] };
    let nudge = doc! { "$cond": [somebody_waits, text, "$promoted"] };
    let head = doc! { "$arrayElemAt": [line_without("$$NOW"), 0] };
    let set = doc! {
        "value": "released:fresh.0",
        "grant.value": "released:fresh.0",
        "expiresAt": { "$cond": [is_date, until, "$$NOW"] },
        "promoted": { "$let": { "vars": { "head": head }, "in": nudge } },
    };
    for (which, mut query) in whiches().into_iter().zip(filters()) {
        query.insert("$expr", is_sound());
        let command = ReleaseLater {
            target: target(which),
            hold_at_least: Duration::from_millis(1_500),
            values: values(),
        };
        let statement = doc! { "q": query, "u": [{ "$set": set.clone() }], "collation": simple() };
        assert_same(&command.build("locks", SENT), &update(vec![statement], true));
    }
}
