//! When something ends, exactly: the clock stands still while there is anything to do.

use std::time::Duration;

use mongo_lease::{LeaseManager, LeaseManagerBuilder, LostReason, MemoryStore, Tuning};
use tokio::time::Instant;

use super::manager;
use crate::permits::{granted, queued_by, writer};

/// A few ticks of the clock.
const TICKS: Duration = Duration::from_millis(5);

fn assert_at(promised: Duration, begin: Instant) {
    let took = begin.elapsed();
    assert!(took >= promised && took <= promised + TICKS, "{promised:?}: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_bound_while_the_store_hangs() {
    const BOUND: Duration = Duration::from_secs(7);
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).shutdown_timeout(BOUND).build().await.unwrap();
    let _lease = leases.acquire("a").await.unwrap();
    let _hang = store.hang();
    let begin = Instant::now();
    let report = leases.shutdown().await;
    assert_at(BOUND, begin);
    assert_eq!((report.released, report.left_to_expire), (0, vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_at_the_end_of_its_validity_while_the_store_hangs() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").ttl(Duration::from_secs(9)).await.unwrap();
    let (valid, begin) = (lease.remaining(), Instant::now());
    let _hang = store.hang();
    let reason = lease.lost().await;
    assert_at(valid, begin);
    assert!(matches!(reason, LostReason::OutOfReach { .. }), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_has_the_time_of_two_attempts_while_the_store_hangs() {
    const ATTEMPT: Duration = Duration::from_secs(3);
    let store = MemoryStore::new();
    let tuning = Tuning::default().attempt_timeout(ATTEMPT);
    let leases = LeaseManager::in_memory(&store).tuning(tuning).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let _hang = store.hang();
    let begin = Instant::now();
    lease.renew().await.unwrap_err();
    assert_at(2 * ATTEMPT, begin);
}

/// The waiter behind a dead one gets no event. It looks once in an entry's life.
#[tokio::test(start_paused = true)]
async fn a_dead_waiter_delays_the_next_by_its_waiter_ttl_and_the_skew() {
    const LIFE: Duration = Duration::from_secs(6);
    const SKEW: Duration = Duration::from_secs(1);
    let waiter = |builder: LeaseManagerBuilder| {
        let tuning = Tuning::default().waiter_ttl(LIFE).recheck_every(60 * LIFE);
        builder.tuning(tuning).max_clock_skew(SKEW).build()
    };
    let store = MemoryStore::new();
    let network = store.client();
    let lease = manager(&store).await.acquire("a").await.unwrap();
    let dead = waiter(LeaseManager::in_memory(&network)).await.unwrap();
    let next = waiter(LeaseManager::in_memory(&store)).await.unwrap();
    let _first = queued_by(&dead, writer).await;
    let waiting = queued_by(&next, writer).await;
    // From now on it is as good as dead: it receives nothing, and nothing of it arrives.
    let _hang = network.hang();
    let begin = Instant::now();
    lease.release().await.unwrap();
    assert!(granted(waiting).await.is_valid());
    let took = begin.elapsed();
    assert!(took > LIFE && took <= LIFE + SKEW + TICKS, "{took:?}");
}
