use std::time::Duration;

use crate::bson::{Bson, Document, doc};
use crate::rules::ids::GrantId;

use super::super::paths::assert_same;
use super::super::{SENT, guard, renewed, tick};
use super::{ECHO, majority, one_more, projection, simple};
use crate::commands::Command;
use crate::commands::renew::{GrantKey, RenewMany, RenewalTarget, Resume};

fn prolonged(lasts: impl Into<Bson>) -> Document {
    let until = doc! { "$add": ["$$NOW", lasts.into()] };
    doc! { "expiresAt": { "$max": ["$expiresAt", until] }, "grant.sentMicros": ECHO }
}

fn counted(lasts: impl Into<Bson>) -> Document {
    let mut set = prolonged(lasts);
    set.insert("grant.writes", one_more());
    set
}

#[test]
fn a_renewal_is_written_out() {
    let renew = RenewMany { grants: vec![renewed(), renewed()] };
    let statement = |count: usize, lasts_ms: i64| {
        let every = |text: &str| doc! { "$in": vec![text; count] };
        let query = doc! {
            "name": every("$name"),
            "value": every("$$NOW"),
            "grant.id": every("$call.3"),
            "$expr": { "$eq": [{ "$type": "$expiresAt" }, "date"] },
        };
        doc! {
            "q": query,
            "u": [{ "$set": prolonged(lasts_ms) }],
            "multi": true,
            "collation": simple(),
        }
    };
    let update = super::update(vec![statement(2, 31_000)], true);
    assert_same(&renew.build("locks", SENT), &update);
    // One statement for each time.
    let longer = RenewalTarget { lasts: Duration::from_secs(61), ..renewed() };
    let renew = RenewMany { grants: vec![renewed(), longer, renewed()] };
    let update = doc! {
        "update": "locks",
        "updates": [statement(2, 31_000), statement(1, 61_000)],
        "ordered": false,
        "writeConcern": majority(),
    };
    assert_same(&renew.build("locks", SENT), &update);
}

#[test]
fn resumes_and_guards_are_written_out() {
    let mut query = doc! { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" };
    query.insert("expiresAt", doc! { "$type": "date" });
    let guard = guard();
    let update = doc! {
        "q": query.clone(),
        "u": [{ "$set": counted(31_000_i64) }],
        "collation": simple(),
    };
    // Within a transaction a command has no write concern.
    assert_same(&guard.build("locks", SENT), &doc! { "update": "locks", "updates": [update] });

    query.insert("$expr", doc! { "$gt": ["$expiresAt", "$$NOW"] });
    query.insert("grant.id", doc! { "$in": ["$call.3", "$fresh"] });
    let is_sound = doc! {
        "$and": [
            { "$eq": [{ "$type": "$grant.ttlMs" }, "long"] },
            { "$gte": ["$grant.ttlMs", 100_i64] },
            { "$lte": ["$grant.ttlMs", 31_622_400_000_i64] },
        ],
    };
    let resumed = |ttl: Bson| {
        let mut set = prolonged(doc! { "$add": [&ttl, 1_000_i64] });
        set.insert("grant.id", doc! { "$literal": "$fresh" });
        set.insert("grant.ttlMs", ttl);
        set.insert("grant.maxClockSkewMs", 1_000_i64);
        set.insert("grant.writes", one_more());
        vec![doc! { "$set": set }]
    };
    let kept = doc! { "$cond": [is_sound, "$grant.ttlMs", 30_000_i64] };
    let wanted = doc! {
        "findAndModify": "locks",
        "query": query,
        "update": resumed(kept.into()),
        "new": true,
        "fields": projection(),
        "collation": simple(),
        "writeConcern": majority(),
    };
    let resume = super::super::resume("$fresh");
    assert_same(&resume.build("locks", SENT), &wanted);

    let mut longer = wanted;
    longer.insert("update", resumed(90_000_i64.into()));
    let resume = Resume { ttl: Some(Duration::from_secs(90)), ..resume };
    assert_same(&resume.build("locks", SENT), &longer);
}

#[test]
fn a_tick_is_written_out() {
    let wanted = doc! {
        "findAndModify": "locks",
        "query": { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" },
        "update": { "$currentDate": { "grant.standaloneToken": { "$type": "timestamp" } } },
        "new": true,
        "fields": { "_id": 0, "grant.standaloneToken": 1 },
        "collation": simple(),
        "writeConcern": majority(),
    };
    assert_same(&tick().build("locks", SENT), &wanted);
}

/// A process may hold many of them. An `Arc` of 24 bytes, with its two counters and the allocator's word, takes 48.
#[test]
fn a_grants_key_is_small_and_gives_its_texts_back() {
    for (value, grant_id) in [("m-c", "m-c.1"), ("own", "m-c.1"), ("", "m-c.1"), ("ü", "ü")] {
        let key = GrantKey::new("näme", value, &GrantId::from(grant_id));
        assert_eq!((key.name(), key.value(), key.grant_id()), ("näme", value, grant_id));
    }
    assert!(size_of::<GrantKey>() <= 24);
}
