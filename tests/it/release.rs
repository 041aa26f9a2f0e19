//! A release frees the lease with this name and value, and touches nothing else.

use std::time::Duration;

use mongo_lease::{LostReason, Released};
use mongo_lease_testbed::Server;

use crate::both::check;
use crate::common::{SHORT_TTL, document, migrated, setup};
use crate::patience::soon;
use crate::spy::Spy;

#[tokio::test]
async fn a_release_with_a_wrong_value_deletes_nothing() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let before = document(&database, "a").await;
    let upper = lease.value().to_uppercase();
    let part = &lease.value()[..8];
    for wrong in ["wrong", upper.as_str(), part, "*", "$value", "{\"$ne\": 1}"] {
        assert_eq!(leases.release("a", wrong).await.unwrap(), Released::NotHeld, "{wrong}");
    }
    for other in ["A", "b", "$name"] {
        assert_eq!(leases.release(other, lease.value()).await.unwrap(), Released::NotHeld);
    }
    assert_eq!(document(&database, "a").await, before);
    assert!(lease.is_valid());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

/// mongo-lock, mongo-lock-async: an expired holder frees its successor's lock.
#[tokio::test]
async fn a_release_after_a_take_over_deletes_nothing() {
    let (database, leases) = setup().await;
    let lost = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    let dropped = leases.acquire("b").ttl(SHORT_TTL).renew(false).await.unwrap();
    let successors = [leases.acquire("a").await.unwrap(), leases.acquire("b").await.unwrap()];
    let before = [document(&database, "a").await, document(&database, "b").await];
    let old_value = lost.value().to_owned();
    assert!(!lost.is_valid());
    assert_eq!(lost.lost().await, LostReason::EndedAsAsked);
    // node-redlock #309: a release after a loss goes through all its retries.
    assert_eq!(soon("the release", lost.release()).await.unwrap(), Released::NotHeld);
    assert_eq!(leases.release("a", &old_value).await.unwrap(), Released::NotHeld);
    drop(dropped);
    // The release that the drop has started went out before this manager's shutdown ends.
    leases.shutdown().await;
    drop(successors);
    assert_eq!([document(&database, "a").await, document(&database, "b").await], [None, None]);
    assert!(before.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_dropped_lease_that_was_lost_leaves_its_successors_alone() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let ours = mongo_lease::LeaseManager::builder(&database.through(&client));
    let ours = ours.build().await.unwrap();
    let other = crate::common::builder(&database).build().await.unwrap();
    let dropped = ours.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    let successor = other.acquire("a").await.unwrap();
    let before = document(&database, "a").await;
    spy.names();
    drop(dropped);
    let report = ours.shutdown().await;
    assert_eq!((report.released, report.tasks_left), (0, 0));
    // A lease that cannot be deleted may have waiters, so a hand-off follows.
    assert_eq!(spy.names(), ["delete", "update"]);
    assert_eq!(document(&database, "a").await, before);
    assert!(successor.is_valid());
    assert_eq!(successor.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_second_release_finds_nothing() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").await.unwrap();
        let value = lease.value().to_owned();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        assert_eq!(leases.release("a", &value).await.unwrap(), Released::NotHeld);
        assert_eq!(leases.release("never held", &value).await.unwrap(), Released::NotHeld);
    })
    .await;
}

#[tokio::test]
async fn an_operator_releases_what_it_saw_and_nothing_newer() {
    let (database, leases) = setup().await;
    let first = leases.acquire("a").await.unwrap();
    let seen = leases.get("a").await.unwrap().unwrap().value.unwrap();
    first.release().await.unwrap();
    let second = leases.acquire("a").await.unwrap();
    let before = document(&database, "a").await;
    assert_eq!(leases.release("a", &seen).await.unwrap(), Released::NotHeld);
    assert_eq!(document(&database, "a").await, before);

    let seen = leases.get("a").await.unwrap().unwrap().value.unwrap();
    assert_eq!(leases.release("a", &seen).await.unwrap(), Released::Released);
    assert_eq!(document(&database, "a").await, None);
    // The holder learns of it by its next renewal at the latest.
    let error = second.renew().await.unwrap_err();
    let mongo_lease::Error::Lost { reason, .. } = error else { panic!("{error}") };
    assert_eq!(reason, LostReason::Removed);
    assert_eq!(second.lost().await, LostReason::Removed);
}

#[tokio::test]
async fn the_plain_release_tells_the_holder_at_its_next_renewal() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").ttl(Duration::from_millis(900)).await.unwrap();
        assert_eq!(leases.release("a", lease.value()).await.unwrap(), Released::Released);
        let successor = leases.acquire("a").await.unwrap();
        let reason = lease.lost().await;
        assert!(matches!(reason, LostReason::TakenOver { by: Some(_), .. }), "{reason}");
        assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
        assert!(successor.is_valid());
    })
    .await;
}
