//! A majority that confirms late is not a failure. Times are exact: the store in memory has a majority that is late by
//! a fixed time.

mod acquiring;
mod ending;
mod holding;
mod waiting;

use std::time::Duration;

use mongo_lease::{LeaseManager, MemoryStore};
use tokio::time::Instant;

/// The delays of which the library has to make nothing at the default ttl.
const DELAYS: [u64; 3] = [3, 6, 10];

const SECOND: Duration = Duration::from_secs(1);

async fn manager(store: &MemoryStore) -> LeaseManager {
    LeaseManager::in_memory(store).owner("test").build().await.expect("a manager")
}

/// A store whose majority is late by so much, and a manager on it.
async fn late_by(delay: Duration) -> (MemoryStore, LeaseManager) {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    store.set_majority_delay(delay);
    (store, leases)
}

fn seconds() -> impl Iterator<Item = Duration> {
    DELAYS.into_iter().map(Duration::from_secs)
}

/// The output, which has to come when the majority has the write, and no more than a second later.
#[track_caller]
fn within_a_second<T>(started: Instant, delay: Duration, output: T) -> T {
    let took = started.elapsed();
    assert!((delay..=delay + SECOND).contains(&took), "{took:?} with a delay of {delay:?}");
    output
}
