//! Hand-offs while a majority is late.

use std::time::Duration;

use mongo_lease::{CommandKind, LeaseManager, MemoryFault, Released, Tuning};
use tokio::time::Instant;

use super::{SECOND, late_by};
use crate::patience::pass;
use crate::permits::{granted, queued_by};

/// How long the hand-off of a lease takes from its release, when that comes so long after the queue began.
async fn hand_off(delay: Duration, waiter_ttl: Duration, phase: Duration) -> Duration {
    let (store, _) = late_by(Duration::ZERO).await;
    let holder = LeaseManager::in_memory(&store).release_timeout(15 * SECOND);
    let holder = holder.build().await.unwrap();
    let tuning = Tuning::default().waiter_ttl(waiter_ttl);
    let waiter = LeaseManager::in_memory(&store).tuning(tuning).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let waits = queued_by(&waiter, |leases| leases.acquire("a").wait_forever()).await;
    store.set_majority_delay(delay);
    pass(30 * SECOND + phase).await;
    let started = Instant::now();
    let release = tokio::spawn(lease.release());
    let next = granted(waits).await;
    let took = started.elapsed();
    assert_eq!(release.await.unwrap().unwrap(), Released::Released);
    let left = next.remaining();
    pass(60 * SECOND).await;
    let lost = next.check().err().map(|error| error.to_string());
    assert_eq!(lost, None, "late by {delay:?}, {phase:?}: granted after {took:?} for {left:?}");
    took
}

/// Whatever the age of the waiter's heartbeat is.
#[tokio::test(start_paused = true)]
async fn a_hand_off_takes_a_delay_or_two() {
    for (delay, waiter_ttl, delays) in [(3, 10, 1), (6, 10, 2), (10, 30, 2)] {
        let (delay, waiter_ttl) = (Duration::from_secs(delay), Duration::from_secs(waiter_ttl));
        for phase in 0..12 {
            let phase = waiter_ttl / 3 / 12 * phase;
            let took = hand_off(delay, waiter_ttl, phase).await;
            let most = delay * delays + SECOND;
            assert!((delay..=most).contains(&took), "{took:?}: late by {delay:?}, {phase:?}");
        }
    }
}

/// The heartbeats of a process that only waits show that the majority is in time again. Then it takes a promotion at
/// once: another attempt would meet the fault.
#[tokio::test(start_paused = true)]
async fn a_waiter_learns_that_the_majority_is_in_time_again() {
    let (store, holder) = late_by(Duration::ZERO).await;
    let waiter = LeaseManager::in_memory(&store).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let waits = queued_by(&waiter, |leases| leases.acquire("a").wait_forever()).await;
    store.set_majority_delay(10 * SECOND);
    pass(30 * SECOND).await;
    store.set_majority_delay(Duration::ZERO);
    pass(30 * SECOND).await;
    store.fail_next(CommandKind::Acquire, MemoryFault::NoPrimary);
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(granted(waits).await.is_valid());
    assert_eq!(store.faults_left(), 1);
}
