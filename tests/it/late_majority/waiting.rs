//! Hand-offs while a majority is late.

use std::time::Duration;

use mongo_lease::{LeaseManager, Released, Tuning};
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
