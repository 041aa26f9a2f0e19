//! A server outside of any replica set: it has no oplog, so tokens come from elsewhere.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Timestamp};
use mongo_lease::{Error, LeaseManager, LostReason};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{assert_not_done, builder, document, migrated, short_or_long};

async fn setup() -> (TestDatabase, LeaseManager) {
    let database = migrated(Server::shared_standalone()).await;
    let leases = builder(&database).build().await.unwrap();
    (database, leases)
}

#[tokio::test]
async fn leases_are_granted_refused_renewed_and_released() {
    let (database, leases) = setup().await;
    crate::clients::everything_works(&leases).await;
    assert_eq!(document(&database, "a").await, None);
    let error = leases.semaphore("a", 2).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    // A limit of 1 is an exclusive lease.
    assert!(leases.semaphore("a", 1).acquire().await.unwrap().is_valid());
}

#[tokio::test]
async fn tokens_rise_over_deletions_and_take_overs() {
    let (_database, leases) = setup().await;
    let mut tokens = Vec::new();
    for _ in 0..short_or_long(30, 300) {
        let lease = leases.acquire("a").await.unwrap();
        tokens.push(lease.token().unwrap());
        lease.release().await.unwrap();
    }
    let ttl = Duration::from_secs(1);
    let lost = leases.acquire("a").ttl(ttl).renew(false).await.unwrap();
    let before = lost.token().unwrap();
    let successor = leases.acquire("a").await.unwrap();
    tokens.extend([before, successor.token().unwrap()]);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    assert_eq!(lost.lost().await, LostReason::EndedAsAsked);
    assert_not_done(lost.release().await.unwrap());
    assert!(successor.is_valid());
}

/// A server that ends in a later second than it began in: such a server counts from one within each second, and forgets
/// its count. (The replica set's oplog does not: see `tokens`.)
#[tokio::test]
async fn tokens_rise_over_a_restart_of_the_server() {
    let server = Server::builder().standalone().start();
    let database = migrated(&server).await;
    let leases = builder(&database).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let before = lease.token().unwrap();
    lease.release().await.unwrap();
    server.mongod().kill();
    while DateTime::now().timestamp_millis() / 1_000 <= i64::from(Timestamp::from(before).time) {
        tokio::task::yield_now().await;
    }
    server.restart().await;
    assert!(leases.acquire("a").await.unwrap().token().unwrap() > before);
}
