//! Leases that several hold, on a store in memory.

use std::time::Duration;

use mongo_lease::{Error, LostReason, MemoryCommand, MemoryStore};

use super::manager;
use crate::patience::bounded;
use crate::permits::{granted, queued_by};

#[tokio::test]
async fn expiring_a_name_expires_all_its_holders() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let semaphore = leases.semaphore("a", 2);
    let held = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    assert!(store.expire("a"));
    let exclusive = leases.try_acquire("a").await.unwrap().granted().expect("it has expired");
    for lease in held {
        let error = lease.renew().await.unwrap_err();
        assert!(
            matches!(error, Error::Lost { reason: LostReason::TakenOver { by: Some(_), .. }, .. }),
            "{error}"
        );
    }
    assert!(exclusive.is_valid());
}

#[tokio::test]
async fn releasing_a_name_releases_all_and_admits_who_waits() {
    let store = MemoryStore::new();
    let (leases, others) = (manager(&store).await, manager(&store).await);
    let semaphore = leases.semaphore("a", 2);
    let held = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    let waits = queued_by(&others, |leases| leases.acquire("a")).await;
    assert!(store.release("a"));
    assert!(granted(waits).await.is_valid());
    for lease in held {
        assert!(matches!(lease.renew().await, Err(Error::Lost { .. })));
    }
    assert!(!store.release("b"));
}

#[tokio::test]
async fn releasing_a_writers_name_admits_a_reader() {
    let store = MemoryStore::new();
    let (leases, others) = (manager(&store).await, manager(&store).await);
    let writer = leases.acquire("a").await.unwrap();
    let waits = queued_by(&others, |leases| leases.acquire("a").shared()).await;
    assert!(store.release("a"));
    assert!(granted(waits).await.is_shared());
    assert!(matches!(writer.renew().await, Err(Error::Lost { .. })));
}

/// A late first attempt, and the second one behind it: carried out when the store answers again.
#[tokio::test]
async fn two_attempts_of_one_call_take_one_permit() {
    let store = MemoryStore::new();
    let network = store.client();
    let slow = mongo_lease::LeaseManager::in_memory(&network);
    let slow = slow.attempt_deadline(Duration::from_millis(100)).build().await.unwrap();
    let others = manager(&store).await;
    let hang = network.hang();
    let semaphore = slow.semaphore("a", 2);
    let call = tokio::spawn(async move { semaphore.acquire().await });
    // Several attempts are on their way after a while of the store's clock.
    for _ in 0..5 {
        tokio::task::yield_now().await;
        store.advance(Duration::from_millis(150));
    }
    drop(hang);
    let lease = bounded(call).await.unwrap().unwrap();
    let other = others.semaphore("a", 2).try_acquire().await.unwrap();
    assert!(other.is_granted(), "one permit is in use");
    drop(lease);
}

#[tokio::test]
async fn a_lost_reply_of_a_renewal_loses_no_permit() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let held = leases.semaphore("a", 2).acquire().await.unwrap();
    store.lose_reply(MemoryCommand::Renew);
    held.renew().await.unwrap();
    assert_eq!(store.faults_left(), 0);
    assert!(held.is_valid());
}
