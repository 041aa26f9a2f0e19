//! Leases that several hold, on a store in memory.

use std::time::Duration;

use mongo_lease::{
    CommandKind, Error, Lease, LeaseManager, LostReason, MemoryFault, MemoryStore, Tuning,
};

use super::manager;
use crate::patience::{Listener, bounded};
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
    let slow = LeaseManager::in_memory(&network);
    let slow = slow
        .tuning(Tuning::default().attempt_timeout(Duration::from_millis(100)))
        .build()
        .await
        .unwrap();
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

/// Trap 6: with the hand-off of exclusive leases, the first waiter would have the whole lease, and send an attempt.
#[tokio::test]
async fn an_exclusive_holder_admits_waiters_that_send_nothing() {
    let store = MemoryStore::new();
    let network = store.client();
    let minute = Duration::from_secs(60);
    let patient = LeaseManager::in_memory(&network)
        .tuning(Tuning::default().waiter_ttl(minute).recheck_every(minute));
    let (leases, waiters) = (manager(&store).await, patient.build().await.unwrap());
    let exclusive = leases.acquire("a").await.unwrap();
    let mut events = Listener::of(&waiters);
    let one = |leases: &LeaseManager| leases.semaphore("a", 3).acquire();
    let first = queued_by(&waiters, one).await;
    events.watching().await;
    let second = queued_by(&waiters, one).await;
    network.fail_next(CommandKind::Acquire, MemoryFault::Refused);
    exclusive.release().await.unwrap();
    let both = [granted(first).await, granted(second).await];
    assert!(both.iter().all(Lease::is_valid));
    assert_eq!(network.faults_left(), 1);
}

/// Trap 7: with the expiry of the newest holder, or of the one that has renewed, the TTL monitor would delete what
/// another one holds.
#[tokio::test]
async fn the_ttl_monitor_spares_the_holder_that_expires_last() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let semaphore = leases.semaphore("a", 3);
    let hold = |secs| semaphore.acquire().ttl(Duration::from_secs(secs)).renew(false);
    let (long, short) = (hold(300).await.unwrap(), hold(10).await.unwrap());
    store.advance(Duration::from_secs(120));
    assert!(!short.is_valid());
    assert!(!leases.try_acquire("a").await.unwrap().is_granted());
    long.renew().await.unwrap();
    let short = hold(10).await.unwrap();
    short.renew().await.unwrap();
    store.advance(Duration::from_secs(250));
    assert!(!leases.try_acquire("a").await.unwrap().is_granted(), "it has been renewed");
    // Behind the last holder the name is free when the one that is left has expired.
    let short = hold(10).await.unwrap();
    long.release().await.unwrap();
    assert!(!leases.try_acquire("a").await.unwrap().is_granted());
    store.advance(Duration::from_secs(12));
    assert!(!short.is_valid());
    assert!(leases.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_lost_reply_of_a_renewal_loses_no_permit() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let held = leases.semaphore("a", 2).acquire().await.unwrap();
    store.fail_next(CommandKind::Renew, MemoryFault::LostReply);
    held.renew().await.unwrap();
    assert_eq!(store.faults_left(), 0);
    assert!(held.is_valid());
}
