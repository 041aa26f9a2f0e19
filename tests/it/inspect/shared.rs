//! Leases that several hold at once, as their documents are stored.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, DateTime, Document, doc};
use mongo_lease::{Attempt, Error, LeaseHolder, LeaseInfo, LeaseManager, LeaseState, Released};

use super::names_of;
use crate::common::setup;
use crate::lent::lent_setup;

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
    database.collection::<Document>("locks").insert_many(documents).await.unwrap();
}

async fn all(leases: &LeaseManager) -> Vec<LeaseInfo> {
    leases.list().with_free().stream().unwrap().try_collect().await.unwrap()
}

#[tokio::test]
async fn a_lease_in_shared_use_is_shown_with_its_holders() {
    let (database, leases) = setup().await;
    let holders = vec![holder("a", 600, 2, 5), holder("b", 300, 1, 3), holder("c", -9, 1, 1)];
    store(&database, [shared("tenant:7", holders)]).await;
    let got = leases.get("tenant:7").await.unwrap().expect("held");
    let [listed] = &all(&leases).await[..] else { panic!("one") };
    for info in [&got, listed] {
        assert!(info.shared && !info.held_here && info.state == LeaseState::Held);
        // An expired holder has no permit any more, and its limit binds nobody.
        assert_eq!((info.in_use, info.limit), (Some(3), Some(3)));
        let shown = |it: &LeaseHolder| (it.value.clone(), it.permits, it.limit);
        let holders: Vec<_> = info.holders.iter().map(shown).collect();
        assert_eq!(holders, [("a".to_owned(), 2, 5), ("b".to_owned(), 1, 3)]);
        assert_eq!(info.holders[1].metadata, doc! { "of": "b" });
        assert_eq!((&info.value, &info.owner, info.acquired_at), (&None, &None, None));
        let first = info.holders[1].remaining;
        assert!(first > Duration::from_secs(200) && first <= Duration::from_secs(300));
        assert!(info.to_string().contains("has 3 of 3 permits in use; the first expires in "));
    }
}

#[tokio::test]
async fn an_exclusive_call_is_refused_by_shared_use() {
    let (database, leases) = setup().await;
    store(&database, [shared("doc", vec![holder("a", 600, 1, 1_000)])]).await;
    match leases.try_acquire("doc").await.unwrap() {
        Attempt::Busy(info) => {
            assert!(info.shared && info.value.is_none(), "{info:?}");
            assert!(
                info.to_string().starts_with("lease \"doc\" is held by several for "),
                "{info}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// As on the server, which admits nobody beside a corrupt list.
#[tokio::test]
async fn a_corrupt_list_of_holders_is_held_by_nobody_known() {
    let (database, leases) = setup().await;
    let mut without_limit = holder("a", 600, 1, 5);
    without_limit.remove("limit");
    let lists: [Bson; 8] = [
        Bson::Null,
        7.into(),
        doc! { "a": 1 }.into(),
        Bson::Array(vec![]),
        vec![Bson::from(holder("a", 600, 1, 5)), "b".into()].into(),
        vec![without_limit].into(),
        vec![holder("a", 600, 0, 5)].into(),
        vec![holder("a", -600, 1, 5)].into(),
    ];
    let documents = lists.into_iter().enumerate();
    store(&database, documents.map(|(number, list)| shared(&format!("n{number}"), list))).await;
    let listed = all(&leases).await;
    assert_eq!(listed.len(), 8);
    for info in listed {
        let got = leases.get(&info.name).await.unwrap().expect("held");
        for info in [info, got] {
            assert!(info.shared && info.is_held(), "{info:?}");
            assert_eq!((info.in_use, info.limit, info.holders), (None, None, vec![]));
        }
    }
}

#[tokio::test]
async fn holders_that_a_take_over_has_left_are_not_shown() {
    // The TTL monitor of a server in common use may remove an expired document before it is taken over.
    let (_server, database, leases) = lent_setup().await;
    let mut over = shared("a", vec![holder("a", 600, 1, 5)]);
    over.insert("expiresAt", DateTime::from_millis(0));
    store(&database, [over]).await;
    let lease = leases.acquire("a").await.unwrap();
    let locks = database.collection::<Document>("locks");
    let stored = locks.find_one(doc! { "name": "a" }).await.unwrap().unwrap();
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
async fn more_shared_leases_than_one_page_are_listed_once_each() {
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
    assert_eq!(names_of(leases.list()).await, Vec::from_iter(names));
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
    // By the value of one of them, that one's permits are free.
    assert_eq!(leases.release("a", "a").await.unwrap(), Released::Released);
    assert_eq!(leases.release("a", "a").await.unwrap(), Released::NotHeld);
    let left = leases.get("a").await.unwrap().unwrap();
    assert_eq!((left.holders[0].value.as_str(), left.in_use), ("b", Some(1)));
}
