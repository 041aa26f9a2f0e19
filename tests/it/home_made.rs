//! The five usual defects of hand-written locks: each is reproduced on a real server, and then a lease is put into the
//! same situation. The README lists them.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::options::ReturnDocument;
use mongo_lease::mongodb::{Collection, Database};
use mongo_lease::{Error, LostReason, Released};
use mongo_lease_testbed::Server;
use tokio::task::JoinSet;

use crate::common::{SHORT_TTL, assert_not_done, builder, granted, setup};
use crate::patience::{bounded, until};

const HOUR: Duration = Duration::from_secs(3_600);

/// The collection of the hand-written lock.
fn theirs(database: &Database) -> Collection<Document> {
    database.collection("home_made")
}

/// The client's clock, wrong by this much, and a time after it.
fn later(time: Duration) -> DateTime {
    let time = i64::try_from(time.as_millis()).unwrap();
    DateTime::from_millis(DateTime::now().timestamp_millis() + time)
}

#[tokio::test]
async fn a_release_by_the_name_alone_frees_the_next_holders_lock() {
    let (database, leases) = setup().await;
    let locks = theirs(&database);
    // The first holder is slow, its lock has expired, and another process has taken it.
    let next = doc! { "name": "a", "owner": "next", "expiresAt": later(HOUR) };
    locks.insert_one(next).await.unwrap();
    // The first one is done, and releases.
    assert_eq!(locks.delete_one(doc! { "name": "a" }).await.unwrap().deleted_count, 1);
    // A third one gets the lock beside the second, who works under it.
    assert_eq!(locks.count_documents(doc! { "name": "a" }).await.unwrap(), 0);

    let slow = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    let next = leases.acquire("a").await.unwrap();
    assert_not_done(slow.release().await.unwrap());
    assert!(next.is_valid() && !leases.try_acquire("a").await.unwrap().is_granted());
}

/// Inserts the lock if it is missing, and reads who has it.
async fn set_on_insert(locks: &Collection<Document>, host: &str, ttl: Duration) -> bool {
    let insert = doc! { "$setOnInsert": { "owner": host, "expiresAt": later(ttl) } };
    let asked = locks.find_one_and_update(doc! { "name": "a" }, insert).upsert(true);
    let found = asked.return_document(ReturnDocument::After).await.unwrap();
    found.unwrap().get_str("owner").is_ok_and(|owner| owner == host)
}

#[tokio::test]
async fn with_the_host_as_the_owner_two_hold_after_a_restart() {
    let (database, leases) = setup().await;
    let locks = theirs(&database);
    assert!(set_on_insert(&locks, "web-1", SHORT_TTL).await);
    // A second process of the same host, while the first one works.
    let as_its_own = set_on_insert(&locks, "web-1", SHORT_TTL).await;
    assert!(as_its_own, "it takes the other's lock for its own");
    // The lock has expired, and a process that was restarted is told that it holds it. Nothing has prolonged it.
    let expired = || doc! { "expiresAt": { "$lte": DateTime::now() } };
    until("it expires", async || locks.find_one(expired()).await.unwrap()).await;
    assert!(set_on_insert(&locks, "web-1", HOUR).await);
    // As the TTL monitor does it, up to a minute later.
    locks.delete_one(expired()).await.unwrap();
    assert!(set_on_insert(&locks, "web-2", HOUR).await, "two hosts hold it");

    let restarted = builder(&database).owner("test").build().await.unwrap();
    let lease = leases.acquire("a").ttl(Duration::from_secs(3)).renew(false).await.unwrap();
    assert!(!restarted.try_acquire("a").await.unwrap().is_granted(), "the same label");
    let next = restarted.acquire("a").await.unwrap();
    assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
    assert!(next.is_valid());
}

/// Takes the lock if it has expired by the client's clock, which is wrong by this much.
async fn by_the_clients_clock(locks: &Collection<Document>, owner: &str, ahead: Duration) -> bool {
    let has_expired = doc! { "name": "a", "expiresAt": { "$lte": later(ahead) } };
    let take = doc! { "$set": { "owner": owner, "expiresAt": later(ahead + HOUR / 2) } };
    locks.update_one(has_expired, take).await.unwrap().matched_count == 1
}

/// `clocks::a_client_an_hour_ahead_and_one_an_hour_behind_behave_alike` has a lease among such clients.
#[tokio::test]
async fn a_client_whose_clock_is_ahead_takes_a_live_lock() {
    let database = Server::shared().database().await;
    let locks = theirs(&database);
    locks.insert_one(doc! { "name": "a", "expiresAt": DateTime::now() }).await.unwrap();
    assert!(by_the_clients_clock(&locks, "right", Duration::ZERO).await);
    let free = by_the_clients_clock(&locks, "another", Duration::ZERO).await;
    assert!(!free, "held for half an hour");
    assert!(by_the_clients_clock(&locks, "ahead", HOUR).await, "two hold it");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_unique_index_two_upserts_are_granted() {
    const TASKS: usize = 8;
    const ROUNDS: usize = 200;
    let database = Server::shared().database().await;
    let locks = theirs(&database);
    // One round nearly always suffices.
    let mut granted = 0;
    for round in 0..ROUNDS {
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let locks = locks.clone();
            tasks.spawn(async move {
                let expired = doc! { "$lte": DateTime::now() };
                let free = doc! { "name": format!("a{round}"), "expiresAt": expired };
                let take = doc! { "$set": { "expiresAt": later(HOUR) } };
                locks.update_one(free, take).upsert(true).await.is_ok()
            });
        }
        granted = tasks.join_all().await.into_iter().filter(|it| *it).count();
        if granted > 1 {
            break;
        }
    }
    assert!(granted > 1, "without an index, nothing refuses a second document");

    let built = builder(&database).build().await.map(drop);
    assert!(matches!(built, Err(Error::NotMigrated { .. })), "{built:?}");
}

#[tokio::test]
async fn a_version_in_the_lock_starts_again_after_a_deletion() {
    let (database, leases) = setup().await;
    let locks = theirs(&database);
    let mut versions = Vec::new();
    for _ in 0..2 {
        let take = doc! { "$inc": { "version": 1 } };
        let asked = locks.find_one_and_update(doc! { "name": "a" }, take).upsert(true);
        let found = asked.return_document(ReturnDocument::After).await.unwrap().unwrap();
        versions.push(found.get_i32("version").unwrap());
        // A release, or the TTL monitor.
        locks.delete_one(doc! { "name": "a" }).await.unwrap();
    }
    assert_eq!(versions, [1, 1], "a fence cannot tell the first holder's late write");

    let mut tokens = Vec::new();
    for _ in 0..2 {
        let lease = granted(&leases, "a").await;
        tokens.push(lease.token().unwrap());
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}
