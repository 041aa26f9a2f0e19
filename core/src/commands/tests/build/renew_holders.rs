//! Renewals in shared use.

use std::time::Duration;

use crate::bson::{Bson, Document, doc};

use super::super::SENT;
use super::super::paths::assert_same;
use super::{ECHO, literal, majority, simple};
use crate::commands::Command;
use crate::commands::renew::{GrantKey, RenewalTarget};
use crate::commands::renew_holders::RenewHolders;

fn grant_for(seconds: u64, name: &str, id: &str) -> RenewalTarget {
    let key = GrantKey::new(name, &format!("value of {id}"), &id.into());
    RenewalTarget { key: key.into(), lasts: Duration::from_secs(seconds) }
}

fn grant(name: &str, id: &str) -> RenewalTarget {
    grant_for(31, name, id)
}

fn built(grants: Vec<RenewalTarget>) -> Document {
    RenewHolders { grants }.build("locks", SENT)
}

/// The holders with these ids, for so many milliseconds, and others as this says.
fn renewed(ids: &[&str], lasts_ms: i64, others: impl Into<Bson>) -> Document {
    let literals: Vec<Bson> = ids.iter().map(|id| literal(id).into()).collect();
    let until = doc! { "$add": ["$$NOW", lasts_ms] };
    let again = doc! { "expiresAt": { "$max": ["$$each.expiresAt", until] }, "sentMicros": ECHO };
    let is_ours = doc! { "$in": ["$$each.id", literals] };
    doc! { "$cond": [is_ours, { "$mergeObjects": ["$$each", again] }, others.into()] }
}

/// A statement for these names, whose documents must show these ids.
fn statement(names: impl Into<Bson>, found: Document, ids: &[&str]) -> Document {
    statement_of(names, found, renewed(ids, 31_000, "$$each"))
}

fn statement_of(names: impl Into<Bson>, found: Document, each: Document) -> Document {
    let undated = doc! { "$elemMatch": { "expiresAt": { "$not": { "$type": "date" } } } };
    let filter = doc! {
        "name": names.into(),
        "holders.id": found,
        "value": "mongo-lease/shared",
        "$expr": { "$eq": [{ "$type": "$expiresAt" }, "date"] },
        "holders": { "$type": "array", "$not": undated },
    };
    let all = doc! { "$map": { "input": "$holders", "as": "each", "in": each } };
    let top = doc! { "$max": ["$expiresAt", { "$max": "$holders.expiresAt" }] };
    doc! {
        "q": filter,
        "u": [{ "$set": { "holders": all } }, { "$set": { "expiresAt": top } }],
        "multi": true,
        "collation": simple(),
    }
}

fn renewal(statements: Vec<Document>) -> Document {
    doc! {
        "update": "locks",
        "updates": statements,
        "ordered": false,
        "writeConcern": majority(),
    }
}

/// Names of which the process holds one grant share a statement; a name of which it holds several has its own, which
/// matches only where all of them are there.
#[test]
fn a_renewal_of_permits_is_written_out() {
    let grants = [("$b", "$c.1"), ("$a", "$d.1"), ("$c", "$e.1"), ("$b", "$f.1")];
    let grants = grants.map(|(name, id)| grant(name, id)).to_vec();
    let wanted = renewal(vec![
        statement(
            doc! { "$in": ["$a", "$c"] },
            doc! { "$in": ["$d.1", "$e.1"] },
            &["$d.1", "$e.1"],
        ),
        statement("$b", doc! { "$all": ["$c.1", "$f.1"] }, &["$c.1", "$f.1"]),
    ]);
    assert_same(&built(grants), &wanted);
    let one = statement(doc! { "$in": ["$a"] }, doc! { "$in": ["$d.1"] }, &["$d.1"]);
    assert_same(&built(vec![grant("$a", "$d.1")]), &renewal(vec![one]));
}

/// Each holder is prolonged for its own time: in a statement for each, and in one name by its id.
#[test]
fn a_renewal_of_permits_carries_each_time() {
    let grants = vec![
        grant_for(61, "$a", "$a.1"),
        grant("$b", "$b.1"),
        grant("$c", "$c.1"),
        grant_for(61, "$c", "$c.2"),
    ];
    let one = |name: &str, id: &str, ms| {
        let found = doc! { "$in": [id] };
        statement_of(doc! { "$in": [name] }, found, renewed(&[id], ms, "$$each"))
    };
    let both = renewed(&["$c.2"], 61_000, renewed(&["$c.1"], 31_000, "$$each"));
    let wanted = renewal(vec![
        one("$b", "$b.1", 31_000),
        one("$a", "$a.1", 61_000),
        statement_of("$c", doc! { "$all": ["$c.1", "$c.2"] }, both),
    ]);
    assert_same(&built(grants), &wanted);
}

/// The server compares every id of a statement with every holder.
#[test]
fn a_statement_of_a_renewal_has_at_most_64_ids() {
    let texts: Vec<_> = (0..150).map(|number| format!("{number:03}")).collect();
    let command = built(texts.iter().map(|text| grant(text, text)).collect());
    let parts = texts.chunks(64).map(|part| {
        let ids: Vec<&str> = part.iter().map(String::as_str).collect();
        let both = || doc! { "$in": ids.clone() };
        statement(both(), both(), &ids)
    });
    assert_same(&command, &renewal(parts.collect()));
    let sizes = texts.chunks(64).map(<[_]>::len);
    assert_eq!(sizes.collect::<Vec<_>>(), [64, 64, 22]);
}
