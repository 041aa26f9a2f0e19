//! A lease that is dropped, and an acquire of the same name right after it in the same process.

use std::time::Duration;

use mongo_lease::{Error, Tuning};
use mongo_lease_testbed::{FailCommand, Server};

use crate::common::{TryOnce, builder, document, migrated, refused};
use crate::deadlines::hold;
use crate::lent::lent_database;
use crate::patience::soon;
use crate::permits::{Ask, permits, writer};

/// And on a replica set, and permits too.
#[tokio::test]
async fn a_dropped_lease_is_granted_again_on_a_standalone_server() {
    let both_permits: Ask = |leases| permits(2, 2)(leases);
    let cases: [(_, _, Ask); 3] = [
        ("a lease on a standalone server", Server::shared_standalone(), writer),
        ("a lease on a replica set", Server::shared(), writer),
        ("permits", Server::shared(), both_permits),
    ];
    for (kind, server, ask) in cases {
        let database = migrated(server).await;
        let leases = builder(&database).build().await.unwrap();
        let mut lease = ask(&leases).await.unwrap();
        for round in 0..20 {
            drop(lease);
            let next = ask(&leases).try_once().await.unwrap().granted();
            lease = next.unwrap_or_else(|| panic!("{kind}: refused in round {round}"));
        }
    }
}

/// After that it gets the true answer. Other names do not wait.
#[tokio::test]
async fn an_acquire_waits_for_a_blocked_release_for_one_attempt() {
    const ATTEMPT: Duration = Duration::from_secs(2);
    let (server, database) = lent_database().await;
    let tuning = Tuning::default().attempt_timeout(ATTEMPT);
    let leases = builder(&database).tuning(tuning).build().await.unwrap();
    let guard = hold(&server, FailCommand::on(&["delete"])).await;
    drop(leases.acquire("a").ttl(30 * ATTEMPT).await.unwrap());
    guard.wait_times_entered(1).await;
    let other = soon("the other name", leases.try_acquire("b")).await.unwrap();
    assert!(other.is_granted());
    assert!(document(&database, "a").await.is_some(), "the release was not held");
    assert!(soon("the answer", refused(&leases, "a")).await.held_here);
    let error = leases.acquire("a").wait(ATTEMPT * 2).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
}
