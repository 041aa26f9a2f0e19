//! Many short leases that come and go: tombstones keep them quick, without a visible difference.

mod walks;

use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Attempt, Error, LeaseInfo, LeaseManager, LeaseState, LostReason, Released};
use mongo_lease_testbed::{Proxy, Server, TestDatabase};

use crate::common::{builder, document, migrated};
use crate::lent::lent_database;
use crate::patience::{Listener, bounded, locks, until, until_nothing_is_left};
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

/// Whether a tombstone stands there.
async fn is_tombstone(database: &TestDatabase, name: &str) -> bool {
    let Some(mut found) = document(database, name).await else {
        return false;
    };
    found.remove("_id");
    let value = found.get_str("value").unwrap_or_default().to_owned();
    let expected = doc! { "name": name, "value": &value, "expiresAt": DateTime::from_millis(0) };
    assert_eq!(found, expected);
    LeaseInfo::is_tombstone_value(&value)
}

async fn listed(list: mongo_lease::List) -> Vec<(String, LeaseState)> {
    let leases: Vec<_> = list.stream().unwrap().try_collect().await.unwrap();
    leases.into_iter().map(|info| (info.name, info.state)).collect()
}

#[tokio::test]
async fn every_release_deletes_unless_told_otherwise() {
    let (_server, database) = lent_database().await;
    let leases = LeaseManager::builder(&database).build().await.unwrap();
    let lanes = (0..10).map(|lane| {
        let names = (0..110).map(move |number| format!("{lane}:{number}"));
        come_and_go(&leases, names)
    });
    join_all(lanes).await;
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Only a manager with tombstones inserts blindly, and asks the server whether that is safe.
#[tokio::test]
async fn only_with_tombstones_a_build_asks_about_the_hint() {
    let (server, database) = lent_database().await;
    let explains = async || {
        let status = server.admin(doc! { "serverStatus": 1 }).await;
        let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
        commands.get_document("explain").unwrap().get_i64("total").unwrap()
    };
    let before = explains().await;
    let _without = LeaseManager::builder(&database).build().await.unwrap();
    assert_eq!(explains().await, before);
    let _with = with_tombstones(&database).await;
    assert_eq!(explains().await, before + 1);
}

#[tokio::test]
async fn with_tombstones_the_first_release_makes_one() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    come_and_go(&leases, ["a", "b"].map(str::to_owned).into_iter()).await;
    let value =
        async |name| document(&database, name).await.unwrap().get_str("value").unwrap().to_owned();
    assert!(is_tombstone(&database, "a").await && is_tombstone(&database, "b").await);
    assert_ne!(value("a").await, value("b").await);
    // Dropped, and given back by a shutdown.
    let before = value("a").await;
    drop(leases.acquire("a").await.unwrap());
    let again = async || {
        let value = value("a").await;
        (LeaseInfo::is_tombstone_value(&value) && value != before).then_some(())
    };
    until("it is given back", again).await;
    let _held = leases.acquire("c").await.unwrap();
    assert_eq!(leases.shutdown().await.released, 1);
    assert!(is_tombstone(&database, "c").await);
}

#[tokio::test]
async fn a_tombstone_is_free_at_once_for_everybody() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let lease = leases.acquire("a").metadata(doc! { "secret": 1 }).await.unwrap();
    let first = lease.token().unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(is_tombstone(&database, "a").await);
    assert_eq!(leases.get("a").await.unwrap(), None);
    assert_eq!(listed(leases.list()).await, []);
    let free = [("a".to_owned(), LeaseState::Free)];
    assert_eq!(listed(leases.list().with_free()).await, free);

    // A program with the usual hand-written lock, and one whose clock is a year behind.
    let behind = DateTime::from_millis(DateTime::now().timestamp_millis() - 365 * 86_400_000);
    let expired = doc! { "name": "a", "expiresAt": { "$lt": behind } };
    assert!(locks(&database).find_one(expired).await.unwrap().is_some());
    let recipe = Recipe::new(&database, Flavour::Correct);
    let value = recipe.lock("a", Duration::from_secs(30)).await.expect("it is free");
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Busy(_)));
    assert!(recipe.unlock("a", &value).await);

    // The same manager, another one, and the first again; each with a newer token.
    let mut newest = first;
    let other = builder(&database).build().await.unwrap();
    for leases in [&leases, &other, &leases] {
        let lease = leases.try_acquire("a").await.unwrap().granted().expect("it is free");
        assert!(lease.token().unwrap() > newest);
        newest = lease.token().unwrap();
        assert!(lease.is_valid());
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    assert!(is_tombstone(&database, "a").await);
}

#[tokio::test]
async fn what_comes_late_does_not_revive_it() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let lease = leases.acquire("a").await.unwrap();
    let value = lease.value().to_owned();
    let key = lease.detach().await.unwrap();
    assert_eq!(leases.release("a", &value).await.unwrap(), Released::Released);
    assert!(is_tombstone(&database, "a").await);
    // A renewal that asks something else.
    let error = leases.resume(key).await.expect_err("it is over");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(leases.release("a", &value).await.unwrap(), Released::NotHeld);
    assert_eq!(leases.release("a", &value).await.unwrap(), Released::NotHeld);
    assert!(is_tombstone(&database, "a").await);
}

/// The reason is the same as for a deleted document.
#[tokio::test]
async fn a_holder_whose_lease_somebody_else_released_is_told_so() {
    let (_server, database) = lent_database().await;
    let operator = with_tombstones(&database).await;
    let leases = builder(&database).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    assert_eq!(operator.release("a", lease.value()).await.unwrap(), Released::Released);
    assert!(is_tombstone(&database, "a").await);
    let error = lease.renew().await.expect_err("it is over");
    assert!(matches!(error, Error::Lost { reason: LostReason::Removed, .. }), "{error}");
}

#[tokio::test]
async fn a_lost_release_reply_is_unknown_and_a_lost_request_is_resent() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = with_tombstones(&database.through(&proxy.client().await)).await;
    let lease = leases.acquire("a").await.unwrap();
    let lost = proxy.lose_next_reply("update");
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    bounded(lost.lost()).await;
    assert!(is_tombstone(&database, "a").await);

    let lease = leases.acquire("b").await.unwrap();
    let lost = proxy.lose_next_request("update");
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    bounded(lost.lost()).await;
    assert!(is_tombstone(&database, "b").await);
}

/// The reply of an insert is lost: the next attempt queries, and finds that same grant.
#[tokio::test]
async fn an_insert_whose_reply_is_lost_ends_in_one_grant() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = with_tombstones(&database.through(&proxy.client().await)).await;
    let lost = proxy.lose_next_reply("findAndModify");
    let lease = leases.acquire("a").await.unwrap();
    bounded(lost.lost()).await;
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(lease.value()));
    assert!(found.get_document("grant").unwrap().get_str("id").unwrap().ends_with(".1"));
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 1);
    assert!(lease.is_valid());
}

#[tokio::test]
async fn a_waiter_is_promoted_and_a_later_call_takes_over_a_tombstone() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let other = builder(&database).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let mut events = Listener::of(&other);
    let waiting = tokio::spawn(async move { other.acquire("a").await.unwrap() });
    events.find(|event| matches!(event, mongo_lease::Event::Queued { .. }).then_some(())).await;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let handed = bounded(waiting).await.unwrap();
    assert!(handed.is_valid());
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(handed.value()));
    // By the release, and not by a later query of its own.
    assert!(found.contains_key("promoted"), "{found}");
    assert_eq!(handed.release().await.unwrap(), Released::Released);
    assert!(bounded(leases.acquire("a").into_future()).await.unwrap().is_valid());
}

/// An insert is refused where somebody holds the lease: then the caller learns the holder, or waits.
#[tokio::test]
async fn a_held_new_name_is_reported_busy_and_can_be_waited_for() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let other = builder(&database).owner("the other one").build().await.unwrap();
    let held = other.acquire("a").await.unwrap();
    match leases.try_acquire("a").await.unwrap() {
        Attempt::Busy(info) => assert_eq!(info.value.as_deref(), Some(held.value())),
        Attempt::Granted(_) => panic!("somebody has it"),
    }
    let held = other.acquire("b").await.unwrap();
    let mut events = Listener::of(&leases);
    let waiting = tokio::spawn(async move { leases.acquire("b").await.unwrap() });
    events.find(|event| matches!(event, mongo_lease::Event::Queued { .. }).then_some(())).await;
    held.release().await.unwrap();
    assert!(bounded(waiting).await.unwrap().is_valid());
}

#[tokio::test]
async fn the_ttl_monitor_removes_tombstones() {
    let server = Server::builder().ttl_monitor_sleep_secs(1).start();
    let database = migrated(&server).await;
    let leases = with_tombstones(&database).await;
    come_and_go(&leases, (0..500).map(|number| format!("order:{number}"))).await;
    until_nothing_is_left(&database).await;
    let status = server.admin(doc! { "serverStatus": 1 }).await;
    let metrics = status.get_document("metrics").unwrap().get_document("ttl").unwrap();
    let removed = metrics.get_i64("deletedDocuments").unwrap();
    assert!(removed >= 500, "{removed} by the monitor");
    // Held leases stay.
    let held = leases.acquire("a").await.unwrap();
    come_and_go(&leases, ["b".to_owned()].into_iter()).await;
    let gone = async || document(&database, "b").await.is_none().then_some(());
    until("the monitor has come", gone).await;
    assert!(held.is_valid());
    assert!(document(&database, "a").await.is_some());
}

/// No query checks a new name first; still the server refuses its insert when the index has gone.
#[tokio::test]
async fn without_the_unique_index_inserts_grant_nothing() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    database.run_command(doc! { "dropIndexes": "locks", "index": "name_1" }).await.unwrap();
    let error = leases.try_acquire("a").await.expect_err("nothing is granted");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    assert_eq!(document(&database, "a").await, None);
}

/// A thousand calls at once travel in batches, with inserts and queries in one command.
#[tokio::test]
async fn names_that_come_again_and_new_ones_go_together() {
    let (_server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let held = builder(&database).build().await.unwrap();
    let _held = held.acquire("again:3").await.unwrap();
    for round in 0..10 {
        let name = move |number: usize| match number % 2 {
            0 => format!("again:{number}"),
            _ => format!("new:{round}:{number}"),
        };
        let pairs = (0..100).map(|number| {
            let leases = leases.clone();
            tokio::spawn(async move {
                let lease = leases.acquire(name(number)).await.unwrap();
                assert!(lease.is_valid());
                assert_eq!(lease.release().await.unwrap(), Released::Released);
            })
        });
        for pair in pairs.collect::<Vec<_>>() {
            bounded(pair).await.unwrap();
        }
    }
    assert_eq!(listed(leases.list()).await.len(), 1);
}

/// A release with tombstones is this one command, without a delete.
#[tokio::test]
async fn a_release_with_tombstones_is_one_command() {
    let (server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let before = server.command_counts().await;
    come_and_go(&leases, (0..20).map(|number| format!("order:{number}"))).await;
    let counts = server.command_counts().await.since(&before);
    assert_eq!((counts.find_and_modify, counts.update, counts.delete), (20, 20, 0), "{counts:?}");
}
