//! Renewals.

use mongodb::bson::{Bson, Document, doc};

use super::super::super::SENT;
use super::super::super::paths::assert_same;
use super::super::{ECHO, literal, majority, one_more_than, simple};
use crate::commands::Command;
use crate::commands::permits::RenewPermits;
use crate::commands::renew::GrantKey;

fn grant(name: &str, id: &str) -> GrantKey {
    GrantKey::new(name, &format!("value of {id}"), &id.into())
}

fn built(grants: Vec<GrantKey>) -> Document {
    RenewPermits { grants }.build("locks", SENT)
}

/// A statement for these names, whose documents must show these ids.
fn statement(names: impl Into<Bson>, found: Document, ids: &[&str]) -> Document {
    let undated = doc! { "$elemMatch": { "expiresAt": { "$not": { "$type": "date" } } } };
    let filter = doc! {
        "name": names.into(),
        "holders.id": found,
        "value": "mongo-lease/shared",
        "$expr": { "$eq": [{ "$type": "$expiresAt" }, "date"] },
        "holders": { "$type": "array", "$not": undated },
    };
    let literals: Vec<Bson> = ids.iter().map(|id| literal(id).into()).collect();
    let until = doc! { "$add": ["$$NOW", "$$entry.ttlMs", "$$entry.allowanceMs"] };
    let shorter = doc! { "$min": ["$$entry.ttlMs", "$$entry.allowanceMs"] };
    let longer = doc! { "$max": ["$$entry.ttlMs", "$$entry.allowanceMs"] };
    let are_times = doc! {
        "$and": [{ "$gte": [shorter, 0] }, { "$lt": [longer, 1_000_000_000_000_i64] }],
    };
    let until = doc! { "$cond": [are_times, until, Bson::Null] };
    let again = doc! {
        "expiresAt": { "$max": ["$$entry.expiresAt", until] },
        "sent": ECHO,
        "n": one_more_than("$$entry.n"),
    };
    let is_ours = doc! { "$in": ["$$entry.id", literals] };
    let again = doc! { "$mergeObjects": ["$$entry", again] };
    let each = doc! { "$cond": [is_ours, again, "$$entry"] };
    let all = doc! { "$map": { "input": "$holders", "as": "entry", "in": each } };
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
