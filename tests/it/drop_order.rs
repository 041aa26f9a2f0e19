//! A lease that is dropped, and an acquire of the same name right after it in the same process.

use std::time::Duration;

use mongo_lease::{Attempt, LeaseManager, Tuning};
use mongo_lease_testbed::{FailCommand, FailPointGuard, Server, TestDatabase};

use crate::common::{builder, document, migrated};
use crate::patience::soon;

/// Longer than any call waits here.
const HELD_FOR: Duration = Duration::from_secs(20);
const ATTEMPT: Duration = Duration::from_millis(500);

/// A server that holds every release.
async fn setup() -> (Server, TestDatabase, LeaseManager, FailPointGuard) {
    let server = Server::start();
    let database = migrated(&server).await;
    let leases = builder(&database)
        .tuning(Tuning::default().attempt_timeout(ATTEMPT))
        .build()
        .await
        .unwrap();
    let fault = FailCommand::on(&["delete"]).block_for(HELD_FOR);
    let guard = fault.enable(server.uri()).await;
    (server, database, leases, guard)
}

async fn grants_behind_each_drop(server: &'static Server) {
    let database = migrated(server).await;
    let leases = builder(&database).build().await.unwrap();
    let mut lease = leases.acquire("a").await.unwrap();
    for round in 0..20 {
        drop(lease);
        let Attempt::Granted(next) = leases.try_acquire("a").await.unwrap() else {
            panic!("refused for the sake of a dropped lease, in round {round}");
        };
        lease = next;
    }
}

#[tokio::test]
async fn a_dropped_lease_is_granted_again_on_a_replica_set() {
    grants_behind_each_drop(Server::shared()).await;
}

#[tokio::test]
async fn a_dropped_lease_is_granted_again_on_a_standalone_server() {
    grants_behind_each_drop(Server::shared_standalone()).await;
}

#[tokio::test]
async fn other_names_do_not_wait_for_the_release_of_a_dropped_lease() {
    let (_server, database, leases, guard) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    drop(lease);
    guard.wait_times_entered(1).await;
    let other = soon("the other name", leases.try_acquire("b")).await.unwrap();
    assert!(other.is_granted());
    assert!(document(&database, "a").await.is_some(), "the release was not held");
    std::mem::forget(guard);
}

/// After that it gets the true answer.
#[tokio::test]
async fn an_acquire_waits_for_a_blocked_release_for_one_attempt() {
    let (_server, _database, leases, guard) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    drop(lease);
    let attempt = soon("the answer", leases.try_acquire("a")).await.unwrap();
    let Attempt::Busy(held) = attempt else { panic!("the release was not held") };
    assert!(held.held_here);
    let error = leases.acquire("a").wait(ATTEMPT * 2).await.unwrap_err();
    assert!(matches!(error, mongo_lease::Error::WaitTimeout { .. }), "{error}");
    std::mem::forget(guard);
}
