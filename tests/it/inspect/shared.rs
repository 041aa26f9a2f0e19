//! Leases that several hold at once, as their documents are stored.

use std::collections::BTreeSet;

use mongo_lease::Error;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, DateTime, Document, doc};

use super::names_of;
use crate::common::{document, setup};
use crate::lent::lent_setup;
use crate::patience::locks;

/// A date so many seconds from now.
fn at(seconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + seconds * 1_000)
}

/// The record of a holder that expires in so many seconds.
fn holder(value: &str, seconds: i64, permits: i64, limit: i64) -> Document {
    doc! {
        "value": value, "id": format!("{value}.1"), "sentMicros": 5_i64,
        "owner": format!("{value}@elsewhere:1"), "acquiredAt": at(-5), "expiresAt": at(seconds),
        "ttlMs": 30_000_i64, "maxClockSkewMs": 1_000_i64, "metadata": { "of": value },
        "permits": permits, "limit": limit, "writes": 1_i64,
    }
}

/// A lease that several hold, until ten minutes from now.
fn shared(name: &str, holders: impl Into<Bson>) -> Document {
    let holders = holders.into();
    doc! { "name": name, "value": "mongo-lease/shared", "expiresAt": at(600), "holders": holders }
}

async fn store(database: &Database, documents: impl IntoIterator<Item = Document>) {
    locks(database).insert_many(documents).await.unwrap();
}

#[tokio::test]
async fn holders_that_a_take_over_has_left_are_not_shown() {
    // The TTL monitor of a server in common use may remove an expired document before it is taken over.
    let (_server, database, leases) = lent_setup().await;
    let mut over = shared("a", vec![holder("a", 600, 1, 5)]);
    over.insert("expiresAt", DateTime::from_millis(0));
    store(&database, [over]).await;
    let lease = leases.acquire("a").await.unwrap();
    let stored = document(&database, "a").await.unwrap();
    assert!(stored.contains_key("holders"), "{stored}");
    let info = leases.get("a").await.unwrap().unwrap();
    assert_eq!((info.value.as_deref(), info.shared), (Some(lease.value()), false));
    assert_eq!((info.in_use, info.limit, info.holders), (Some(1), Some(1), vec![]));
    let former = names_of(leases.list().held_by("a@elsewhere:1")).await;
    assert_eq!(former, Vec::<String>::new());
}

#[tokio::test]
async fn lists_by_owner_have_the_leases_that_it_shares() {
    let (database, leases) = setup().await;
    let documents = [
        shared("both", vec![holder("a", 600, 1, 5), holder("b", 600, 1, 5)]),
        // It has expired, and no write has removed it yet.
        shared("expired", vec![holder("a", -1, 1, 5), holder("b", 600, 1, 5)]),
        shared("other", vec![holder("b", 600, 1, 5)]),
        shared("corrupt", vec![Bson::from(holder("a", 600, 1, 5)), Bson::Null]),
    ];
    store(&database, documents).await;
    assert_eq!(names_of(leases.list().held_by("a@elsewhere:1")).await, ["both"]);
    let of_b = leases.list().held_by("b@elsewhere:1");
    assert_eq!(names_of(of_b.clone()).await, ["both", "expired", "other"]);
    assert_eq!(names_of(of_b.glob("*e*")).await, ["expired", "other"]);
    assert_eq!(names_of(leases.list().held_by("a@elsewhere")).await, Vec::<String>::new());
}

#[tokio::test]
async fn more_leases_than_a_page_are_listed_once_each_and_in_order() {
    let (database, leases) = setup().await;
    let names: BTreeSet<String> = (0..250).map(|number| format!("n:{number}")).collect();
    let of = |name: &String| {
        let label = if name.ends_with('7') { "b" } else { "a" };
        shared(name, vec![holder("c", 600, 1, 5), holder(label, 600, 1, 5)])
    };
    store(&database, names.iter().map(of)).await;
    let (of_b, of_a): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| name.ends_with('7'));
    assert_eq!(names_of(leases.list().held_by("a@elsewhere:1")).await, of_a);
    assert_eq!(names_of(leases.list().held_by("b@elsewhere:1")).await, of_b);
    let all = Vec::from_iter(names);
    assert_eq!(names_of(leases.list().prefix("n:")).await, all);
    // Two pages and a half, exactly two, and exactly one.
    for left in [250, 200, 100] {
        locks(&database).delete_many(doc! { "name": { "$in": &all[left..] } }).await.unwrap();
        assert_eq!(names_of(leases.list()).await, all[..left], "{left}");
    }
}

/// A release by it would delete the document of all its holders.
#[tokio::test]
async fn the_value_of_shared_use_releases_nobody() {
    let (database, leases) = setup().await;
    store(&database, [shared("a", vec![holder("a", 600, 1, 5), holder("b", 600, 1, 5)])]).await;
    let value = "mongo-lease/shared";
    let error = leases.release("a", value).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { option: "value", .. }), "{error}");
    assert_eq!(leases.get("a").await.unwrap().unwrap().holders.len(), 2);
}
