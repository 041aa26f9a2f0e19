use mongodb::bson::{Bson, Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, acquire, joining};
use super::{
    ECHO, entries, filtered, is_entry, is_live, literal, majority, one_more, projection,
    sign_of_life, simple, without_empty_queue,
};
use crate::commands::acquire::Acquire;
use crate::runner::Command;

/// What stands in our own call's place: its own value, and that of the call before it.
fn is_own(value: impl Into<Bson>, own: &[&str]) -> Document {
    let own: Vec<Document> = own.iter().map(|value| literal(value)).collect();
    doc! { "$in": [value.into(), own] }
}

fn is_absent() -> Document {
    doc! { "$in": [{ "$type": "$expiresAt" }, ["missing", "null"]] }
}

fn is_date() -> Document {
    doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] }
}

/// What the waiter's own newest entry says; where it has none, nothing.
fn newest(field: &str) -> Document {
    doc! { "$max": format!("$$own.{field}") }
}

/// What a grant changes in the document.
fn granted(own: &[&str]) -> Document {
    let anew = doc! {
        "value": literal("$$NOW"),
        "id": literal("$call.3"),
        "sent": "$$sent",
        "owner": literal("$owner"),
        "acquiredAt": "$$NOW",
        "ttlMs": 30_000_i64,
        "allowanceMs": 1_000_i64,
        "meta": { "$literal": { "$meta": "$meta" } },
        "n": one_more(),
    };
    let again = doc! {
        "sent": "$$sent",
        "ttlMs": { "$max": ["$grant.ttlMs", 30_000_i64] },
        "allowanceMs": { "$max": ["$grant.allowanceMs", 1_000_i64] },
        "n": one_more(),
    };
    let granted_to_me = doc! { "$eq": ["$grant.value", literal("$$NOW")] };
    let same_grant = doc! { "$and": ["$$mine", granted_to_me] };
    let prolonged = doc! { "$max": ["$expiresAt", "$$until"] };
    let changes = doc! {
        "value": literal("$$NOW"),
        "expiresAt": { "$cond": ["$$mine", prolonged, "$$until"] },
        "grant": { "$cond": [same_grant, { "$mergeObjects": ["$grant", again] }, anew] },
        "queue": filtered("$$line", doc! { "$not": is_own("$$entry.value", own) }),
    };
    let vars = doc! {
        "until": { "$add": [{ "$max": ["$$NOW", newest("beatAt")] }, 31_000_i64] },
        "sent": { "$cond": [{ "$gt": [newest("beatAt"), "$$NOW"] }, newest("sent"), ECHO] },
    };
    doc! { "$let": { "vars": vars, "in": changes } }
}

/// What joining the line changes in the document.
fn joined(own: &[&str]) -> Document {
    let terms = doc! {
        "ttlMs": 30_000_i64,
        "allowanceMs": 1_000_i64,
        "owner": literal("$owner"),
        "meta": { "$literal": { "$meta": "$meta" } },
    };
    let mut fresh = doc! {
        "value": literal("$$NOW"),
        "id": literal("$call.3"),
        "sent": ECHO,
        "beatAt": "$$NOW",
        "expiresAt": { "$add": ["$$NOW", 10_000_i64] },
    };
    fresh.extend(terms.clone());
    // It is still the one that joined first, unless it was the other call's.
    let is_mine = doc! { "$eq": ["$$entry.value", literal("$$NOW")] };
    let mut again = doc! {
        "value": literal("$$NOW"),
        "id": { "$cond": [is_mine, "$$entry.id", literal("$call.3")] },
    };
    again.extend(sign_of_life());
    again.extend(terms);
    let each = doc! { "$cond": [is_own("$$entry.value", own), again, "$$entry"] };
    let in_place = doc! { "$map": { "input": "$$line", "as": "entry", "in": each } };
    let at_the_end = doc! { "$concatArrays": ["$$line", [fresh]] };
    doc! { "queue": { "$cond": [{ "$eq": ["$$own", []] }, at_the_end, in_place] } }
}

/// The whole command: `inherited` is the condition under which another's grant is this call's to take, and `refused`
/// what changes when the lease is not free.
fn command(own: &[&str], inherited: Document, refused: Document, fields: Document) -> Document {
    let over = doc! { "$or": [{ "$lte": ["$expiresAt", "$$NOW"] }, "$$mine", "$$inherited"] };
    let is_free = doc! { "$or": [is_absent(), { "$and": [is_date(), over] }] };
    let first = doc! { "$arrayElemAt": ["$$line.value", 0] };
    let is_first = is_own(doc! { "$ifNull": [first, literal("$$NOW")] }, own);
    let is_our_turn = doc! { "$or": ["$$mine", "$$inherited", is_first] };
    let may_take = doc! { "$and": [is_free, is_our_turn] };
    let choice = doc! { "$cond": [may_take, granted(own), refused] };
    let changed = doc! { "$mergeObjects": ["$$ROOT", choice] };
    let vars = doc! {
        "own": filtered("$$line", is_own("$$entry.value", own)),
        "mine": { "$eq": ["$value", literal("$$NOW")] },
        "inherited": inherited,
    };
    let changed = doc! { "$let": { "vars": vars, "in": changed } };
    let counts = doc! { "$or": [is_own("$$entry.value", own), is_live()] };
    let line = filtered(entries(), doc! { "$and": [is_entry(), counts] });
    let changed = doc! { "$let": { "vars": { "line": line }, "in": changed } };
    doc! {
        "findAndModify": "locks",
        "query": { "name": "$name" },
        "update": [{ "$replaceWith": changed }, without_empty_queue()],
        "upsert": true,
        "new": true,
        "fields": fields,
        "hint": { "name": 1 },
        "collation": simple(),
        "writeConcern": majority(),
    }
}

/// With the place in line, which only who joins asks for.
fn projection_with_ahead() -> Document {
    let values = doc! { "$map": { "input": entries(), "as": "entry", "in": "$$entry.value" } };
    let mut fields = projection();
    fields.insert("ahead", doc! { "$indexOfArray": [values, literal("$$NOW")] });
    fields
}

/// What changes for a call that joins, where the queue takes seven.
fn refused_and_joined(own: &[&str]) -> Document {
    let has_room = doc! { "$or": [
        { "$ne": ["$$own", []] },
        { "$lt": [{ "$size": "$$line" }, 7_i64] },
    ] };
    let is_sound = doc! { "$or": [is_absent(), is_date()] };
    doc! { "$cond": [{ "$and": [is_sound, has_room] }, joined(own), {}] }
}

fn never() -> Document {
    doc! { "$literal": false }
}

#[test]
fn an_acquire_that_does_not_wait_is_written_out() {
    // It stands in no line, and yet nobody before whom others wait may barge.
    let wanted = command(&["$$NOW"], never(), doc! {}, projection());
    assert_same(&acquire().build(SENT), &wanted);
}

#[test]
fn an_acquire_that_joins_the_line_is_written_out() {
    let refused = refused_and_joined(&["$$NOW"]);
    let wanted = command(&["$$NOW"], never(), refused, projection_with_ahead());
    assert_same(&joining().build(SENT), &wanted);
}

#[test]
fn an_acquire_that_takes_over_a_place_is_written_out() {
    let acquire = Acquire { predecessor: Some("$before".to_owned()), ..joining() };
    let own = ["$$NOW", "$before"];
    let inherited = doc! { "$eq": ["$value", literal("$before")] };
    let wanted = command(&own, inherited, refused_and_joined(&own), projection_with_ahead());
    assert_same(&acquire.build(SENT), &wanted);
}

/// The attempts of one call differ in the number of the grant that each of them may be, and in nothing else.
#[test]
fn attempts_differ_in_the_id_of_their_grant_alone() {
    let text = |attempt| Bson::from(Acquire { attempt, ..joining() }.build(SENT)).to_string();
    let (third, tenth) = (text(3), text(10));
    assert!(third.contains("\"$call.3\"") && !third.contains("\"$call.10\""), "{third}");
    assert_eq!(third.replace("\"$call.3\"", "\"$call.10\""), tenth);
}
