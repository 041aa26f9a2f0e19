//! Leases that several hold, on a store in memory.

use std::time::Duration;

use mongo_lease::{
    Acquire, CommandKind, Error, Lease, LeaseManager, LostReason, MemoryFault, MemoryStore, Tuning,
};

use super::manager;
use crate::patience::{Listener, pass};
use crate::permits::{dropped, granted, queued_by};

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
        let Error::Lost { reason, .. } = &error else { panic!("{error}") };
        assert!(matches!(reason, LostReason::TakenOver { by: Some(_), .. }), "{error}");
    }
    assert!(exclusive.is_valid());
}

/// A release of the name ends all that hold it, and admits the call that waits.
async fn a_release_ends_all(
    acquire: impl Fn(&LeaseManager) -> Acquire,
    holders: usize,
    wait: impl FnOnce(&LeaseManager) -> Acquire,
) -> Lease {
    let store = MemoryStore::new();
    let (leases, others) = (manager(&store).await, manager(&store).await);
    let mut held = Vec::new();
    for _ in 0..holders {
        held.push(acquire(&leases).await.unwrap());
    }
    let waits = queued_by(&others, wait).await;
    assert!(store.release("a"));
    let admitted = granted(waits).await;
    for lease in held {
        assert!(matches!(lease.renew().await, Err(Error::Lost { .. })));
    }
    admitted
}

#[tokio::test]
async fn releasing_a_name_releases_all_and_admits_who_waits() {
    let store = MemoryStore::new();
    assert!(!store.release("a"), "nobody holds it");
    let lease = manager(&store).await.acquire("a").await.unwrap();
    assert!(store.release("a"));
    assert!(matches!(lease.renew().await, Err(Error::Lost { reason: LostReason::Removed, .. })));

    let exclusive = |leases: &LeaseManager| leases.acquire("a");
    let one_of_two = |leases: &LeaseManager| leases.semaphore("a", 2).acquire();
    assert!(a_release_ends_all(exclusive, 1, exclusive).await.is_valid());
    assert!(a_release_ends_all(one_of_two, 2, exclusive).await.is_valid());
}

#[tokio::test]
async fn releasing_a_writers_name_admits_a_reader() {
    let writer = |leases: &LeaseManager| leases.acquire("a");
    let reader = |leases: &LeaseManager| leases.acquire("a").shared();
    assert!(a_release_ends_all(writer, 1, reader).await.is_shared());
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

/// The heartbeats of all find out whose entry has gone. When the first one goes, the next one looks within an entry's
/// life: it may have been admitted, and died.
#[tokio::test(start_paused = true)]
async fn the_first_call_for_permits_sends_attempts_for_all_of_its_process() {
    const HOUR: Duration = Duration::from_secs(3_600);
    const LIFE: Duration = Duration::from_secs(6);
    let store = MemoryStore::new();
    let network = store.client();
    let tuning = Tuning::default().waiter_ttl(LIFE).recheck_every(HOUR);
    let leases = LeaseManager::in_memory(&network).tuning(tuning).build().await.unwrap();
    let _exclusive = manager(&store).await.acquire("a").ttl(3 * HOUR).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let ask = |leases: &LeaseManager| leases.semaphore("a", 3).acquire().wait_forever();
        waiting.push(queued_by(&leases, ask).await);
    }
    for first in waiting.drain(..2) {
        pass(LIFE).await;
        network.fail_next(CommandKind::Acquire, MemoryFault::NoPrimary);
        pass(10 * LIFE).await;
        assert_eq!(network.faults_left(), 1, "nobody has to look");
        dropped(first).await;
        pass(LIFE + Duration::from_millis(1)).await;
        assert_eq!(network.faults_left(), 0);
    }
}
