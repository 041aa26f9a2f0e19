//! Releases and shutdowns while a majority is late.

use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::{Lease, LeaseManager, MemoryStore, Released};
use tokio::time::Instant;

use super::{SECOND, late_by, seconds, within_a_second};

/// One lease of each kind, granted while the majority was in time.
async fn held(leases: &LeaseManager) -> Vec<Lease> {
    let permits = leases.semaphore("permits", 3);
    vec![
        leases.acquire("a").await.unwrap(),
        leases.acquire("kept").hold_at_least(60 * SECOND).await.unwrap(),
        permits.acquire().await.unwrap(),
        permits.acquire().await.unwrap(),
    ]
}

async fn in_time(tombstones: bool) -> (MemoryStore, LeaseManager) {
    let store = MemoryStore::new();
    // The default is as long as the longest delay.
    let leases = LeaseManager::in_memory(&store).release_timeout(15 * SECOND);
    let leases = leases.tombstones(tombstones).build().await.unwrap();
    (store, leases)
}

#[tokio::test(start_paused = true)]
async fn a_release_is_known_when_a_majority_has_it() {
    for delay in seconds() {
        for tombstones in [false, true] {
            let (store, leases) = in_time(tombstones).await;
            let held = held(&leases).await;
            store.set_majority_delay(delay);
            for lease in held.into_iter().take(3) {
                let name = lease.name().to_owned();
                let started = Instant::now();
                let released = within_a_second(started, delay, lease.release().await);
                assert_eq!(released.unwrap(), Released::Released, "{name} with {delay:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_releases_are_known_together() {
    for delay in seconds() {
        let (store, leases) = in_time(false).await;
        let calls = (0..300).map(|number| leases.acquire(format!("lease:{number}")).into_future());
        let held: Vec<Lease> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        store.set_majority_delay(delay);
        let started = Instant::now();
        let released = join_all(held.into_iter().map(Lease::release)).await;
        within_a_second(started, delay, ());
        assert!(released.into_iter().all(|it| it.unwrap() == Released::Released));
    }
}

/// The other primary has the grant still. The release is sent again, and ends it there.
#[tokio::test(start_paused = true)]
async fn a_release_that_a_failover_undid_is_sent_again() {
    let (store, leases) = late_by(Duration::ZERO).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    store.set_majority_delay(5 * SECOND);
    let release = tokio::spawn(lease.release());
    crate::patience::pass(2 * SECOND).await;
    assert!(!release.is_finished());
    store.undo_late();
    assert_eq!(store.leases_in_use(), 1);
    store.set_majority_delay(Duration::ZERO);
    assert_eq!(release.await.unwrap().unwrap(), Released::Released);
    assert_eq!(store.leases_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_in_its_time_and_says_what_it_left() {
    for (delay, released) in [(3, 4), (6, 4), (60, 1)] {
        let (store, leases) = in_time(false).await;
        let held = held(&leases).await;
        store.set_majority_delay(Duration::from_secs(delay));
        let started = Instant::now();
        let report = leases.shutdown().await;
        assert!(started.elapsed() <= 10 * SECOND, "{:?} with {delay} s", started.elapsed());
        assert_eq!(report.released, released, "{delay} s: {report:?}");
        assert_eq!(report.left_to_expire.len(), held.len() - released, "{delay} s: {report:?}");
    }
}
