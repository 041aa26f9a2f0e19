//! Admissions.

use crate::bson::{Bson, Document, doc};

use super::super::super::SENT;
use super::super::super::paths::assert_same;
use super::super::{
    ECHO, entries, filtered, heartbeat_update, is_sound, literal, majority, one_more_than,
    projection, simple,
};
use super::{
    admits, elements, fast_admit, filled, is_free, is_own, is_shared, is_unexpired, line, with,
};
use crate::commands::Command;
use crate::commands::permits::Admit;

fn upsert(changes: Document, fields: Document) -> Document {
    doc! {
        "findAndModify": "locks",
        "query": { "name": "$name" },
        "update": [{ "$replaceWith": { "$mergeObjects": ["$$ROOT", changes] } }],
        "upsert": true,
        "new": true,
        "fields": fields,
        "hint": { "name": 1 },
        "collation": simple(),
        "writeConcern": majority(),
    }
}

/// The caller's own grant, the time until the first holder's expiry, and what is in use.
fn shown() -> Document {
    let own = doc! {
        "id": "$$own.id",
        "expiresAt": "$$own.expiresAt",
        "permits": "$$own.permits",
        "limit": "$$own.limit",
    };
    let first = doc! { "$arrayElemAt": [filtered("$$elements", is_own()), 0] };
    let own = with("own", first, own);
    let left = doc! {
        "$cond": [
            { "$lte": ["$$first", "$$NOW"] },
            0_i64,
            { "$subtract": ["$$first", "$$NOW"] },
        ],
    };
    let first_ms = with("first", doc! { "$min": "$$elements.expiresAt" }, left);
    let shown = doc! {
        "own": own,
        "firstMs": first_ms,
        "inUse": { "$sum": "$$elements.permits" },
        "limit": { "$min": "$$elements.limit" },
    };
    doc! { "$cond": [is_shared(), shown, {}] }
}

fn fields(shared: Document) -> Document {
    let mut fields = projection();
    fields.insert("shared", with("elements", elements(), shared));
    fields
}

/// A reply that shows the grant which this very command has made tells nothing of the others.
fn shown_of_a_fast_attempt() -> Document {
    let is_new = doc! {
        "$and": [
            { "$eq": ["$$last.id", literal("$call.3")] },
            { "$eq": ["$$last.acquiredAt", "$$NOW"] },
        ],
    };
    let is_alone = doc! { "$eq": [{ "$size": "$$elements" }, 1] };
    let granted = doc! {
        "own": {
            "id": "$$last.id",
            "expiresAt": "$$last.expiresAt",
            "permits": "$$last.permits",
            "limit": "$$last.limit",
        },
        "inUse": { "$cond": [&is_alone, "$$last.permits", "$$REMOVE"] },
        "limit": { "$cond": [is_alone, "$$last.limit", "$$REMOVE"] },
    };
    let last = doc! { "$arrayElemAt": ["$$elements", -1] };
    with("last", last, doc! { "$cond": [is_new, granted, shown()] })
}

/// The holders that stay, where the list counts.
fn kept(stays: Document) -> Document {
    doc! { "$cond": [is_shared(), filtered("$$elements", stays), []] }
}

/// The caller's entry, which lives for so many milliseconds.
fn entry(life: i64) -> Document {
    doc! {
        "value": literal("$$NOW"),
        "id": { "$ifNull": ["$$old.id", literal("$call.3")] },
        "ttlMs": 30_000_i64,
        "maxClockSkewMs": 1_000_i64,
        "owner": literal("$owner"),
        "metadata": { "$literal": { "$meta": "$meta" } },
        "permits": 2_i64,
        "limit": 5_i64,
        "sentMicros": heartbeat_update("$$old").get("sentMicros").unwrap().clone(),
        "heartbeatAt": { "$max": ["$$NOW", "$$old.heartbeatAt"] },
        "expiresAt": { "$max": ["$$old.expiresAt", { "$add": ["$$NOW", life] }] },
    }
}

/// The holders that stay: the caller's own is prolonged, and never shortened.
fn refreshed() -> Document {
    let again = doc! {
        "expiresAt": { "$max": ["$$entry.expiresAt", { "$add": ["$$NOW", 31_000_i64] }] },
        "sentMicros": ECHO,
        "ttlMs": { "$max": ["$$entry.ttlMs", 30_000_i64] },
        "maxClockSkewMs": { "$max": ["$$entry.maxClockSkewMs", 1_000_i64] },
        "writes": one_more_than("$$entry.writes"),
    };
    let again = doc! { "$mergeObjects": ["$$entry", again] };
    let each = doc! { "$cond": [is_own(), again, "$$entry"] };
    doc! { "$map": { "input": "$$kept", "as": "entry", "in": each } }
}

/// The new document. `allowed` chooses between the changes and none.
fn full_form(life: i64, allowed: impl FnOnce(Document) -> Document) -> Document {
    let others = filtered("$$callers", doc! { "$not": is_own() });
    let has_place = doc! { "$gte": ["$$place", 0] };
    let each = doc! { "$cond": [is_own(), "$$me", "$$entry"] };
    let in_place = doc! { "$map": { "input": "$$callers", "as": "entry", "in": each } };
    let at_the_end = doc! { "$concatArrays": ["$$callers", ["$$me"]] };
    let joined = doc! { "$cond": [&has_place, in_place, at_the_end] };
    let holds = doc! { "$in": [literal("$$NOW"), "$$kept.value"] };
    let new_line = doc! { "$cond": [holds, others, joined] };
    let changes = filled(new_line, true, refreshed(), doc! { "queue": "$$rest" }, allowed);
    let changes = with("me", entry(life), changes);
    let old = doc! { "$cond": [has_place, { "$arrayElemAt": ["$$callers", "$$place"] }, {}] };
    let changes = with("old", old, changes);
    let place = doc! { "$indexOfArray": ["$$callers.value", literal("$$NOW")] };
    let changes = with("place", place, changes);
    let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    // An older version has handed the whole lease to this call, and to no other one with its value.
    let is_value = doc! { "$eq": ["$value", literal("$$NOW")] };
    let from = doc! { "$gte": ["$grant.id", literal("$call.")] };
    let until = doc! { "$lt": ["$grant.id", literal("$call/")] };
    let is_replaced = doc! { "$and": [is_date, is_value, from, until] };
    let is_any = doc! { "$gt": [{ "$size": "$$kept" }, 0] };
    let vars = doc! {
        "callers": line(Some(is_own())),
        "open": { "$or": [is_free(), is_replaced, is_any] },
    };
    let changes = doc! { "$let": { "vars": vars, "in": changes } };
    let stays = doc! { "$or": [is_unexpired(), is_own()] };
    with("elements", elements(), with("kept", kept(stays), changes))
}

/// The full form of a call that does not wait, and of one that does.
#[test]
fn an_admission_is_written_out() {
    let [once, joining] = admits();
    let is_admitted = doc! { "$in": [literal("$$NOW"), "$$all.value"] };
    let only_admitted = |changes| doc! { "$cond": [&is_admitted, changes, {}] };
    let wanted = upsert(full_form(30_000, only_admitted), fields(shown()));
    assert_same(&once.build("locks", SENT), &wanted);

    let has_place = doc! { "$gte": ["$$place", 0] };
    let has_room = doc! { "$lt": [{ "$size": "$$callers" }, 7_i64] };
    let may_join = doc! { "$or": [has_place, has_room, &is_admitted] };
    let or_joined = |changes| doc! { "$cond": [{ "$and": [is_sound(), may_join] }, changes, {}] };
    let place = doc! { "$indexOfArray": ["$queue.value", literal("$$NOW")] };
    let mut with_ahead = fields(shown());
    with_ahead.insert("ahead", doc! { "$cond": [{ "$isArray": ["$queue"] }, place, -1] });
    let wanted = upsert(full_form(10_000, or_joined), with_ahead);
    assert_same(&joining.build("locks", SENT), &wanted);
}

#[test]
fn a_fast_admission_is_written_out() {
    let own = doc! {
        "value": literal("$$NOW"),
        "id": literal("$call.3"),
        "sentMicros": ECHO,
        "owner": literal("$owner"),
        "acquiredAt": "$$NOW",
        "expiresAt": { "$add": ["$$NOW", 31_000_i64] },
        "ttlMs": 30_000_i64,
        "maxClockSkewMs": 1_000_i64,
        "metadata": { "$literal": { "$meta": "$meta" } },
        "permits": 2_i64,
        "limit": 5_i64,
        "writes": 1_i64,
    };
    let admitted = doc! {
        "value": "mongo-lease/shared",
        "holders": "$$all",
        "expiresAt": { "$max": "$$all.expiresAt" },
    };
    let admitted = with("all", doc! { "$concatArrays": ["$$kept", [own]] }, admitted);
    let no_queue: Vec<Bson> = Vec::new();
    let has_no_queue = doc! { "$in": [{ "$ifNull": ["$queue", no_queue.clone()] }, [no_queue]] };
    let in_use = doc! { "$add": [{ "$sum": "$$kept.permits" }, 2_i64] };
    let limits = doc! { "$concatArrays": ["$$kept.limit", [5_i64]] };
    let fits = doc! {
        "$and": [
            &has_no_queue,
            { "$not": { "$in": [literal("$$NOW"), "$$kept.value"] } },
            { "$or": [is_free(), { "$gt": [{ "$size": "$$kept" }, 0] }] },
            { "$lte": [in_use, { "$min": limits }] },
        ],
    };
    let changes = with("kept", kept(is_unexpired()), doc! { "$cond": [fits, admitted, {}] });
    let mut with_queue = fields(shown_of_a_fast_attempt());
    with_queue.insert("hasQueue", doc! { "$not": has_no_queue });
    let wanted = upsert(with("elements", elements(), changes), with_queue);
    assert_same(&fast_admit().build("locks", SENT), &wanted);
}

/// The attempts of one call differ only in the number within the ids of their grants.
#[test]
fn attempts_for_permits_differ_in_the_id_alone() {
    let text = |attempt| {
        let [_, joining] = admits();
        Bson::from(Admit { attempt, ..joining }.build("locks", SENT)).to_string()
    };
    let (third, tenth) = (text(3), text(10));
    assert!(third.contains("\"$call.3\"") && !third.contains("\"$call.10\""), "{third}");
    assert_eq!(third.replace("\"$call.3\"", "\"$call.10\""), tenth);
}

/// The line of the pipeline and that of the reply are the same field.
#[test]
fn a_queue_of_another_type_counts_as_empty() {
    let text = Bson::from(admits()[1].build("locks", SENT)).to_string();
    assert!(text.contains(&Bson::from(entries()).to_string()));
}
