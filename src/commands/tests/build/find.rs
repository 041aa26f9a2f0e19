use mongodb::bson::{Document, Timestamp, doc};

use super::super::SENT;
use super::super::paths::assert_same;
use super::{projection, simple};
use crate::commands::Command;
use crate::commands::find::{FindLeases, Page};
use crate::rules::pattern::NamePattern;
use crate::rules::slots::Lane;
use crate::rules::token::Token;

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
            "collation": simple(),
            "readConcern": { "level": "majority" },
        }
    };
    let look = |names: &[&str]| FindLeases {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        lane: Lane::Acquire,
        after: None,
    };
    assert_same(&look(&["$name"]).build("locks", SENT), &find(doc! { "name": "$name" }, 1));
    let both = doc! { "name": { "$in": ["$a", "$b"] } };
    assert_same(&look(&["$a", "$b"]).build("locks", SENT), &find(both, 2));

    // A read that sees everything up to a time that the server has named.
    let after = FindLeases { after: Some(Token::from_parts(9, 3)), ..look(&["$a", "$b"]) };
    let time = Timestamp { time: 9, increment: 3 };
    let mut wanted = find(doc! { "name": { "$in": ["$a", "$b"] } }, 2);
    wanted.insert("readConcern", doc! { "level": "majority", "afterClusterTime": time });
    assert_same(&after.build("locks", SENT), &wanted);

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
    let filter = doc! {
        "name": name,
        "grant.owner": "$owner",
        "$expr": { "$eq": ["$grant.value", "$value"] },
    };
    let mut wanted = find(filter, 100);
    wanted.insert("sort", doc! { "name": 1 });
    assert_same(&page.build("locks", SENT), &wanted);
}
