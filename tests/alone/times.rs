//! How soon something comes: a bound close to what is promised.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongo_lease::LeaseManager;

use crate::common::{builder, pooled};
use crate::lent::lent_database;
use crate::patience::PATIENCE;
use crate::waiters::{granted, in_line};

/// For how long a stream may delay the command that detects the lack of room for it. A read of the stream takes 10 s.
const BLOCKED: Duration = Duration::from_secs(5);
/// A call that finds no connection waits for longer: for its holder's ttl of 30 s, or for its own deadline.
const STARVED: Duration = Duration::from_secs(15);

/// How long a manager takes at most for a lease of its own while one of its calls waits.
async fn slowest_beside_a_waiter(leases: &LeaseManager, kind: &str) -> Duration {
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        let started = Instant::now();
        let lease = leases.acquire(kind).wait(PATIENCE).await.unwrap();
        lease.release().await.unwrap();
        slowest = slowest.max(started.elapsed());
    }
    slowest
}

/// Managers that share a pool, each with a stream and a waiter.
async fn waiters_are_granted(cases: [(u32, usize); 2], bound: Duration) {
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    join_all(cases.map(async |(size, managers)| {
        let shared = pooled(&server, &database, size).await;
        let (mut held, mut waiting, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..managers {
            let name = format!("a:{size}:{number}");
            let leases = LeaseManager::builder(&shared).build().await.unwrap();
            held.push(holder.acquire(&name).await.unwrap());
            waiting.push(in_line(&leases, leases.acquire(&name)).await);
            all.push(leases);
        }
        let slowest = slowest_beside_a_waiter(&all[0], &format!("own:{size}")).await;
        let started = Instant::now();
        for lease in held {
            lease.release().await.unwrap();
        }
        for waiting in waiting {
            granted(waiting).await.release().await.unwrap();
        }
        let took = started.elapsed();
        let case = format!("{managers} in a pool of {size}");
        assert!(slowest < bound && took < bound, "{case}: {slowest:?} {took:?}");
    }))
    .await;
}

#[tokio::test]
async fn in_pools_of_1_and_2_a_waiter_delays_nothing_for_long() {
    waiters_are_granted([(1, 1), (2, 1)], BLOCKED).await;
}

#[tokio::test]
async fn managers_sharing_a_small_pool_delay_nothing_for_long() {
    waiters_are_granted([(2, 3), (10, 12)], STARVED).await;
}
