//! Many short leases that come and go: tombstones keep them quick, without a visible difference.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{LeaseInfo, LeaseManager, LeaseState, LostReason, Released};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::both::check;
use crate::common::{
    self, assert_done, assert_not_done, builder, document, known_release, migrated, patient,
    statistic,
};
use crate::keys::lost;
use crate::lent::lent_database;
use crate::patience::{bounded, locks, until, until_free};
use crate::permits::{granted, queued_by, writer};
use crate::recipe::{Flavour, Recipe};

/// Acquires and releases each of these.
async fn come_and_go(leases: &LeaseManager, names: impl Iterator<Item = String>) {
    for name in names {
        let lease = leases.acquire(name).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
}

/// A manager whose releases make tombstones.
async fn with_tombstones(database: &Database) -> LeaseManager {
    let builder = LeaseManager::builder(database).owner("test").tombstones(true);
    builder.build().await.unwrap()
}

/// The value of the tombstone that stands there, if anything does.
pub(crate) async fn tombstone(database: &TestDatabase, name: &str) -> Option<String> {
    let mut found = document(database, name).await?;
    found.remove("_id");
    let value = found.get_str("value").unwrap_or_default().to_owned();
    let expected = doc! { "name": name, "value": &value, "expiresAt": DateTime::from_millis(0) };
    assert_eq!(found, expected);
    assert!(LeaseInfo::is_tombstone_value(&value), "{value}");
    Some(value)
}

async fn listed(list: mongo_lease::List) -> Vec<(String, LeaseState)> {
    let leases: Vec<_> = list.stream().unwrap().try_collect().await.unwrap();
    leases.into_iter().map(|info| (info.name, info.state)).collect()
}

/// A hundred calls at once travel in batches: of names that come again, and of new ones. With tombstones these are
/// queries and inserts in one command.
#[tokio::test]
async fn every_release_deletes_unless_told_otherwise() {
    const ROUNDS: usize = 4;
    let (_server, database) = lent_database().await;
    for (tombstones, left) in [(false, 0), (true, 50 + 50 * ROUNDS as u64)] {
        let leases = builder(&database).tombstones(tombstones).build().await.unwrap();
        let lanes = (0..100).map(|lane| {
            let name = move |round| match lane % 2 {
                0 => format!("again:{lane}"),
                _ => format!("new:{lane}:{round}"),
            };
            come_and_go(&leases, (0..ROUNDS).map(name))
        });
        join_all(lanes).await;
        let documents = locks(&database).count_documents(doc! {}).await.unwrap();
        assert_eq!(documents, left, "tombstones {tombstones}");
        assert_eq!(listed(leases.list()).await, [], "tombstones {tombstones}");
    }
}

/// Only a manager with tombstones inserts blindly, and asks the server whether that is safe.
#[tokio::test]
async fn only_with_tombstones_a_build_asks_about_the_hint() {
    let (server, database) = lent_database().await;
    let before = statistic(&server, &["metrics", "commands", "explain"], "total").await;
    let _without = LeaseManager::builder(&database).build().await.unwrap();
    assert_eq!(statistic(&server, &["metrics", "commands", "explain"], "total").await, before);
    let _with = with_tombstones(&database).await;
    assert!(statistic(&server, &["metrics", "commands", "explain"], "total").await > before);
}

#[tokio::test]
async fn with_tombstones_every_release_makes_a_new_one() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database).tombstones(true)).build().await.unwrap();
    let before = server.command_counts().await;
    come_and_go(&leases, (0..20).map(|number| number.to_string())).await;
    let counts = server.command_counts().await.since(&before);
    assert_eq!(counts.delete, 0, "{counts:?}");
    let mut values = BTreeSet::new();
    for name in ["0", "1"] {
        values.insert(tombstone(&database, name).await.expect("of a release"));
    }
    drop(leases.acquire("0").await.unwrap());
    until_free(&leases, "0").await;
    values.insert(tombstone(&database, "0").await.expect("of a drop"));
    let _held = leases.acquire("2").await.unwrap();
    assert_eq!(leases.shutdown().await.released, 1);
    values.insert(tombstone(&database, "2").await.expect("of a shutdown"));
    assert_eq!(values.len(), 4, "{values:?}");
}

#[tokio::test]
async fn a_tombstone_is_free_at_once_for_everybody() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let lease = leases.acquire("a").metadata(doc! { "secret": 1 }).await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(tombstone(&database, "a").await.is_some());

    // A program with the usual hand-written lock, and one whose clock is a year behind.
    let behind = DateTime::from_millis(DateTime::now().timestamp_millis() - 365 * 86_400_000);
    let expired = doc! { "name": "a", "expiresAt": { "$lt": behind } };
    assert!(locks(&database).find_one(expired).await.unwrap().is_some());
    let recipe = Recipe::new(&database, Flavour::Correct);
    let value = recipe.lock("a", Duration::from_secs(30)).await.expect("it is free");
    assert!(!leases.try_acquire("a").await.unwrap().is_granted());
    assert!(recipe.unlock("a", &value).await);

    let other = builder(&database).build().await.unwrap();
    for leases in [&leases, &other, &leases] {
        let lease = common::granted(leases, "a").await;
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    assert!(tombstone(&database, "a").await.is_some());
}

#[tokio::test]
async fn a_released_lease_is_seen_by_nobody_with_tombstones_too() {
    check(async |backend| {
        let leases = backend.builder().tombstones(true).build().await.unwrap();
        let mut newest = None;
        for _ in 0..2 {
            let lease = common::granted(&leases, "a").await;
            assert!(lease.token().ok() > newest);
            newest = lease.token().ok();
            assert_eq!(lease.release().await.unwrap(), Released::Released);
            assert_eq!(leases.get("a").await.unwrap(), None);
            assert_eq!(listed(leases.list()).await, []);
        }
        // Between a release and the list the TTL monitor may have its round.
        until("the list with its tombstone", async || {
            leases.acquire("a").await.unwrap().release().await.unwrap();
            let all = listed(leases.list().with_free()).await;
            (all == [("a".to_owned(), LeaseState::Free)]).then_some(())
        })
        .await;
    })
    .await;
}

/// The reason of the loss is the same as for a deleted document.
#[tokio::test]
async fn what_comes_late_does_not_revive_it() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let (held, detached) = (leases.acquire("a").await.unwrap(), leases.acquire("b").await.unwrap());
    let key = detached.detach().await.unwrap();
    for (name, value) in [("a", held.value()), ("b", key.value())] {
        assert_done(leases.release(name, value).await.unwrap(), name);
        assert_eq!(known_release(&leases, name, value).await, Released::NotHeld, "{name}");
    }
    assert_eq!(lost(held.renew().await), LostReason::Removed);
    assert_eq!(lost(leases.resume(key).await), LostReason::Removed);
    assert_not_done(held.release().await.unwrap());
    for name in ["a", "b"] {
        assert!(tombstone(&database, name).await.is_some(), "{name}");
    }
}

/// With tombstones the first attempt is an insert. It is refused where somebody holds the lease: then the caller learns
/// the holder, or waits.
#[tokio::test]
async fn calls_wait_for_those_with_tombstones_and_are_waited_for() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let other = builder(&database).owner("the other one").build().await.unwrap();
    let held = other.acquire("a").await.unwrap();
    let busy = common::refused(&leases, "a").await;
    assert_eq!(busy.value.as_deref(), Some(held.value()));
    let waiting = queued_by(&leases, writer).await;
    held.release().await.unwrap();
    let lease = granted(waiting).await;
    let waiting = queued_by(&other, writer).await;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let handed = granted(waiting).await;
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(handed.value()));
    // By the release, and not by a later query of its own.
    assert!(found.contains_key("promoted"), "{found}");
    assert_eq!(handed.release().await.unwrap(), Released::Released);
    assert!(bounded(leases.acquire("a").into_future()).await.unwrap().is_valid());
}

#[tokio::test]
async fn the_ttl_monitor_removes_tombstones() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = with_tombstones(&database).await;
    let held = leases.acquire("a").await.unwrap();
    come_and_go(&leases, (0..50).map(|number| format!("order:{number}"))).await;
    let count = async || locks(&database).count_documents(doc! {}).await.unwrap();
    until("the monitor has come", async || (count().await == 1).then_some(())).await;
    assert!(held.is_valid());
    assert!(document(&database, "a").await.is_some());
}
