use crate::bson::{Document, Timestamp, doc};
use crate::rules::ids::GrantId;
use crate::rules::pattern::NamePattern;

use super::super::SENT;
use super::super::paths::assert_same;
use super::{projection, projection_without_queue, simple};
use crate::commands::Command;
use crate::commands::find::{FindHolders, FindLeases, GetLease, Page};
use crate::commands::renew::GrantKey;

/// A query, with the projection of most.
fn find(filter: Document, limit: i64) -> Document {
    doc! {
        "find": "locks",
        "filter": filter,
        "projection": projection(),
        "limit": limit,
        "batchSize": limit,
        "singleBatch": true,
        "collation": simple(),
        "readConcern": { "level": "majority" },
    }
}

#[test]
fn looks_and_pages_are_written_out() {
    let look = |names: &[&str]| FindLeases {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        after: None,
    };
    assert_same(&look(&["$name"]).build("locks", SENT), &find(doc! { "name": "$name" }, 1));
    let both = doc! { "name": { "$in": ["$a", "$b"] } };
    assert_same(&look(&["$a", "$b"]).build("locks", SENT), &find(both, 2));

    // A read that sees everything up to a time that the server has named.
    let after =
        FindLeases { after: Some(Timestamp { time: 9, increment: 3 }), ..look(&["$a", "$b"]) };
    let time = Timestamp { time: 9, increment: 3 };
    let mut wanted = find(doc! { "name": { "$in": ["$a", "$b"] } }, 2);
    wanted.insert("readConcern", doc! { "level": "majority", "afterClusterTime": time });
    assert_same(&after.build("locks", SENT), &wanted);

    // For users, with the holders of leases held by several.
    let mut with_holders = projection();
    with_holders.insert("holders", 1);
    let mut wanted = find(doc! { "name": "$name" }, 1);
    wanted.insert("projection", with_holders.clone());
    assert_same(&GetLease { name: "$name".to_owned() }.build("locks", SENT), &wanted);

    let page = Page {
        pattern: NamePattern::Prefix("$".to_owned()),
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
    let holds = doc! {
        "grant.owner": "$owner",
        "$expr": { "$eq": ["$grant.value", "$value"] },
    };
    let shares = doc! { "value": "mongo-lease/shared", "holders.owner": "$owner" };
    let mut wanted = find(doc! { "name": name, "$or": [holds, shares] }, 100);
    wanted.insert("projection", with_holders);
    wanted.insert("sort", doc! { "name": 1 });
    assert_same(&page.build("locks", SENT), &wanted);
}

/// Renewals read their own holders by their ids, and the echo of the newest command.
#[test]
fn the_look_at_own_holders_is_written_out() {
    let mut wanted = find(doc! { "name": { "$in": ["$a"] } }, 1);
    let mut fields = projection_without_queue();
    let list = doc! { "$cond": [{ "$isArray": ["$holders"] }, "$holders", []] };
    let is_own = doc! { "$setIsSubset": [["$$each.id"], { "$literal": ["$id1", "$id2"] }] };
    let own = doc! { "$filter": { "input": list, "as": "each", "cond": is_own } };
    let part =
        doc! { "value": "$$each.value", "id": "$$each.id", "sentMicros": "$$each.sentMicros" };
    fields.insert("holders", doc! { "$map": { "input": own, "as": "each", "in": part } });
    wanted.insert("projection", fields);
    let key = |id: &str| GrantKey::new("$a", "$value", &GrantId::from(id));
    let look_at_holders = FindHolders { grants: vec![key("$id1"), key("$id2")] };
    assert_same(&look_at_holders.build("locks", SENT), &wanted);
}
