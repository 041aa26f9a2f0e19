use mongodb::bson::{Bson, Document, doc};

use super::{SENT, acquire, key, target};
use crate::commands::guard::Guard;
use crate::commands::inspect::{Look, Page};
use crate::commands::release::{Release, ReleaseLater, Which};
use crate::commands::renew::{RenewMany, Resume};
use crate::commands::tick::Tick;
use crate::runner::{Command, Lane};

fn projection() -> Document {
    let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    let left = doc! { "$subtract": ["$expiresAt", "$$NOW"] };
    let left = doc! { "$cond": [{ "$lte": ["$expiresAt", "$$NOW"] }, 0_i64, left] };
    doc! {
        "_id": 0,
        "name": 1,
        "value": 1,
        "expiresType": { "$type": "$expiresAt" },
        "expiresAt": { "$cond": [is_date.clone(), "$expiresAt", null] },
        "remainingMs": { "$cond": [is_date, left, null] },
        "grant.value": 1,
        "grant.id": 1,
        "grant.sent": 1,
        "grant.owner": 1,
        "grant.acquiredAt": 1,
        "grant.ttlMs": 1,
        "grant.meta": 1,
    }
}

fn one_more() -> Document {
    doc! { "$add": [{ "$cond": [{ "$isNumber": "$grant.n" }, "$grant.n", 0] }, 1] }
}

fn prolonged() -> Document {
    let until = doc! { "$add": ["$$NOW", "$grant.ttlMs", "$grant.allowanceMs"] };
    doc! {
        "expiresAt": { "$max": ["$expiresAt", until] },
        "grant.sent": 7_000_000_001_i64,
        "grant.n": one_more(),
    }
}

#[test]
fn acquire_is_written_out() {
    let absent = doc! { "$in": [{ "$type": "$expiresAt" }, ["missing", "null"]] };
    let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    let over = doc! { "$or": [{ "$lte": ["$expiresAt", "$$NOW"] }, "$$mine"] };
    let is_free = doc! { "$or": [absent, { "$and": [is_date, over] }] };
    let literal = |text: &str| doc! { "$literal": text };
    let anew = doc! {
        "value": literal("$$NOW"),
        "id": literal("$call.3"),
        "sent": 7_000_000_001_i64,
        "owner": literal("$owner"),
        "acquiredAt": "$$NOW",
        "ttlMs": 30_000_i64,
        "allowanceMs": 1_000_i64,
        "meta": { "$literal": { "$meta": "$meta" } },
        "n": one_more(),
    };
    let again = doc! {
        "sent": 7_000_000_001_i64,
        "ttlMs": { "$max": ["$grant.ttlMs", 30_000_i64] },
        "allowanceMs": { "$max": ["$grant.allowanceMs", 1_000_i64] },
        "n": one_more(),
    };
    let granted_to_me = doc! { "$eq": ["$grant.value", literal("$$NOW")] };
    let same_grant = doc! { "$and": ["$$mine", granted_to_me] };
    let prolonged = doc! { "$max": ["$expiresAt", "$$until"] };
    let granted = doc! {
        "value": literal("$$NOW"),
        "expiresAt": { "$cond": ["$$mine", prolonged, "$$until"] },
        "grant": { "$cond": [same_grant, { "$mergeObjects": ["$grant", again] }, anew] },
    };
    let vars = doc! {
        "mine": { "$eq": ["$value", literal("$$NOW")] },
        "until": { "$add": ["$$NOW", 31_000_i64] },
    };
    let choice = doc! { "$cond": [is_free, { "$mergeObjects": ["$$ROOT", granted] }, "$$ROOT"] };
    let wanted = doc! {
        "findAndModify": "locks",
        "query": { "name": "$name" },
        "update": [{ "$replaceWith": { "$let": { "vars": vars, "in": choice } } }],
        "upsert": true,
        "new": true,
        "fields": projection(),
        "hint": { "name": 1 },
        "collation": { "locale": "simple" },
        "writeConcern": { "w": "majority", "j": true },
    };
    assert_eq!(acquire().build(SENT), wanted);
}

#[test]
fn release_is_written_out() {
    let targets = vec![
        target(Which::Any),
        target(Which::Grant("$call.3".to_owned())),
        target(Which::Call { call_id: "$call".to_owned(), except: None }),
        target(Which::Call { call_id: "$call".to_owned(), except: Some("$call.2".to_owned()) }),
    ];
    let delete = |id: Option<Bson>| {
        let mut query = doc! { "name": "$name", "value": "$$NOW" };
        if let Some(id) = id {
            query.insert("grant.id", id);
        }
        doc! { "q": query, "limit": 1, "collation": { "locale": "simple" } }
    };
    let of_call = doc! { "$gte": "$call.", "$lt": "$call/" };
    let but_for_one = doc! { "$gte": "$call.", "$lt": "$call/", "$ne": "$call.2" };
    let ids = [None, Some("$call.3".into()), Some(of_call.into()), Some(but_for_one.into())];
    let deletes = ids.map(delete).to_vec();
    let wanted = doc! {
        "delete": "locks",
        "deletes": deletes,
        "ordered": false,
        "writeConcern": { "w": "majority", "j": true },
    };
    assert_eq!(Release { collection: "locks".to_owned(), targets }.build(SENT), wanted);
}

#[test]
fn a_release_that_is_put_off_is_written_out() {
    let command = ReleaseLater {
        collection: "locks".to_owned(),
        target: target(Which::Grant("$call.3".to_owned())),
        hold_at_least: std::time::Duration::from_millis(1_500),
    };
    let until = doc! { "$add": ["$grant.acquiredAt", 1_500_i64] };
    let is_date = doc! { "$eq": [{ "$type": "$grant.acquiredAt" }, "date"] };
    let until = doc! { "$cond": [is_date, until, "$$NOW"] };
    let set = doc! {
        "value": "",
        "grant.value": "",
        "expiresAt": until,
    };
    let update = doc! {
        "q": { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" },
        "u": [{ "$set": set }],
        "collation": { "locale": "simple" },
    };
    let wanted = doc! {
        "update": "locks",
        "updates": [update],
        "writeConcern": { "w": "majority", "j": true },
    };
    assert_eq!(command.build(SENT), wanted);
}

#[test]
fn renewals_resumes_and_guards_are_written_out() {
    let renew =
        RenewMany { collection: "locks".to_owned(), grants: vec![key().into(), key().into()] };
    let both = |text: &str| doc! { "$in": [text, text] };
    let query = doc! {
        "name": both("$name"),
        "value": both("$$NOW"),
        "grant.id": both("$call.3"),
        "expiresAt": { "$type": "date" },
    };
    let update = doc! {
        "q": query,
        "u": [{ "$set": prolonged() }],
        "multi": true,
        "collation": { "locale": "simple" },
    };
    let wanted = doc! {
        "update": "locks",
        "updates": [update],
        "writeConcern": { "w": "majority", "j": true },
    };
    assert_eq!(renew.build(SENT), wanted);

    let mut query = doc! { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" };
    query.insert("expiresAt", doc! { "$type": "date" });
    let guard = Guard { collection: "locks".to_owned(), key: key().into() };
    let update = doc! {
        "q": query.clone(),
        "u": [{ "$set": prolonged() }],
        "collation": { "locale": "simple" },
    };
    // No write concern within a transaction.
    assert_eq!(guard.build(SENT), doc! { "update": "locks", "updates": [update] });

    query.insert("$expr", doc! { "$gt": ["$expiresAt", "$$NOW"] });
    let wanted = doc! {
        "findAndModify": "locks",
        "query": query,
        "update": [{ "$set": prolonged() }],
        "new": true,
        "fields": projection(),
        "collation": { "locale": "simple" },
        "writeConcern": { "w": "majority", "j": true },
    };
    assert_eq!(Resume { collection: "locks".to_owned(), key: key() }.build(SENT), wanted);
}

#[test]
fn a_tick_is_written_out() {
    let tick = Tick {
        collection: "locks".to_owned(),
        name: "$name".to_owned(),
        value: "$$NOW".to_owned(),
        grant_id: "$call.3".to_owned(),
    };
    let wanted = doc! {
        "findAndModify": "locks",
        "query": { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" },
        "update": { "$currentDate": { "grant.tick": { "$type": "timestamp" } } },
        "new": true,
        "fields": { "_id": 0, "grant.tick": 1 },
        "collation": { "locale": "simple" },
        "writeConcern": { "w": "majority", "j": true },
    };
    assert_eq!(tick.build(SENT), wanted);
}

#[test]
fn looks_and_pages_are_written_out() {
    let find = |filter: Document, limit: i64| {
        doc! {
            "find": "locks",
            "filter": filter,
            "projection": projection(),
            "limit": limit,
            "batchSize": limit,
            "singleBatch": true,
            "collation": { "locale": "simple" },
            "readConcern": { "level": "majority" },
        }
    };
    let look = |names: &[&str]| Look {
        collection: "locks".to_owned(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
        lane: Lane::Ask,
    };
    assert_eq!(look(&["$name"]).build(SENT), find(doc! { "name": "$name" }, 1));
    let both = doc! { "name": { "$in": ["$a", "$b"] } };
    assert_eq!(look(&["$a", "$b"]).build(SENT), find(both, 2));

    let page = Page {
        collection: "locks".to_owned(),
        regex: Some("^\\$".to_owned()),
        owner: Some("$owner".to_owned()),
        after: Some("$a".to_owned()),
        limit: 100,
    };
    let name = doc! {
        "$type": "string",
        "$not": { "$type": "array" },
        "$gt": "$a",
        "$regex": "^\\$",
        "$options": "s",
    };
    let filter = doc! {
        "name": name,
        "grant.owner": "$owner",
        "$expr": { "$eq": ["$grant.value", "$value"] },
    };
    let mut wanted = find(filter, 100);
    wanted.insert("sort", doc! { "name": 1 });
    assert_eq!(page.build(SENT), wanted);
}
