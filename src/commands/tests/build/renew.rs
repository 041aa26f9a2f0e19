use std::time::Duration;

use mongodb::bson::{Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, key, tick};
use super::{ECHO, majority, one_more, projection, simple};
use crate::commands::Command;
use crate::commands::guard::Guard;
use crate::commands::renew::{GrantKey, RenewMany, Resume};
use crate::rules::ids::GrantId;

fn prolonged() -> Document {
    let until = doc! { "$add": ["$$NOW", "$grant.ttlMs", "$grant.allowanceMs"] };
    doc! {
        "expiresAt": { "$max": ["$expiresAt", until] },
        "grant.sent": ECHO,
        "grant.n": one_more(),
    }
}

#[test]
fn renewals_resumes_and_guards_are_written_out() {
    let renew = RenewMany { grants: vec![key().into(), key().into()] };
    let both = |text: &str| doc! { "$in": [text, text] };
    let query = doc! {
        "name": both("$name"),
        "value": both("$$NOW"),
        "grant.id": both("$call.3"),
        "$expr": { "$eq": [{ "$type": "$expiresAt" }, "date"] },
    };
    let update = doc! {
        "q": query,
        "u": [{ "$set": prolonged() }],
        "multi": true,
        "collation": simple(),
    };
    assert_same(&renew.build("locks", SENT), &super::update(vec![update], true));

    let mut query = doc! { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" };
    query.insert("expiresAt", doc! { "$type": "date" });
    let guard = Guard { key: key().into() };
    let update = doc! {
        "q": query.clone(),
        "u": [{ "$set": prolonged() }],
        "collation": simple(),
    };
    // Within a transaction a command has no write concern.
    assert_same(&guard.build("locks", SENT), &doc! { "update": "locks", "updates": [update] });

    query.insert("$expr", doc! { "$gt": ["$expiresAt", "$$NOW"] });
    query.insert("grant.id", doc! { "$in": ["$call.3", "$fresh"] });
    let mut resumed = prolonged();
    resumed.insert("grant.id", doc! { "$literal": "$fresh" });
    let wanted = doc! {
        "findAndModify": "locks",
        "query": query,
        "update": [{ "$set": resumed.clone() }],
        "new": true,
        "fields": projection(),
        "collation": simple(),
        "writeConcern": majority(),
    };
    let resume = Resume { key: key(), fresh_id: "$fresh".into(), ttl: None };
    assert_same(&resume.build("locks", SENT), &wanted);

    let mut longer = wanted;
    let until = doc! { "$add": ["$$NOW", 90_000_i64, "$grant.allowanceMs"] };
    let set = doc! { "$max": ["$expiresAt", until] };
    resumed.insert("expiresAt", set);
    resumed.insert("grant.ttlMs", doc! { "$literal": 90_000_i64 });
    longer.insert("update", vec![doc! { "$set": resumed }]);
    let resume = Resume { ttl: Some(Duration::from_secs(90)), ..resume };
    assert_same(&resume.build("locks", SENT), &longer);
}

#[test]
fn a_tick_is_written_out() {
    let wanted = doc! {
        "findAndModify": "locks",
        "query": { "name": "$name", "value": "$$NOW", "grant.id": "$call.3" },
        "update": { "$currentDate": { "grant.tick": { "$type": "timestamp" } } },
        "new": true,
        "fields": { "_id": 0, "grant.tick": 1 },
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
