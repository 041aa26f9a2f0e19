//! Three nodes, of which the primary steps down, dies or stops while twenty wait in the queue.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::{ReplicaSet, TestDatabase};

use super::crowd::{Crowd, Turn, longest_pause};
use crate::common::builder;
use crate::patience::{PATIENCE, until_nothing_is_left};

const WAITERS: usize = 20;

/// The settings that the documentation recommends for quick failovers.
fn attentive(options: &mut ClientOptions) {
    options.heartbeat_freq = Some(Duration::from_millis(500));
    options.connect_timeout = Some(Duration::from_secs(1));
}

struct Setup {
    set: ReplicaSet,
    database: TestDatabase,
    lease: Lease,
    crowd: Crowd,
}

/// Somebody holds the lease, and twenty are in the queue, each with a manager and a client of its own.
async fn setup() -> Setup {
    let set = ReplicaSet::start();
    let database = TestDatabase::of(&set.client_with(attentive).await);
    let leases = builder(&database).ensure_indexes(true).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let mut crowd = Crowd::new("a", PATIENCE);
    for _ in 0..WAITERS {
        let own = database.through(&set.client_with(attentive).await);
        crowd.join(LeaseManager::builder(&own).build().await.unwrap()).await;
    }
    Setup { set, database, lease, crowd }
}

impl Setup {
    /// A fault of the primary during the hand-offs: after `served` of them, or together with the first release if that
    /// is 0.
    async fn goes_on(self, served: usize, fault: impl AsyncFnOnce(&ReplicaSet, usize)) {
        let Setup { set, database, lease, crowd } = self;
        let before = lease.token().unwrap();
        let primary = set.primary().await;
        let fault = async {
            if served > 0 {
                crowd.served(served).await;
            }
            let started = Instant::now();
            fault(&set, primary).await;
            started
        };
        // The fault first, so that the release meets it.
        let (started, _confirmed) = tokio::join!(fault, lease.release());
        let turns = crowd.all_served_in_order(before).await;
        report(&turns, started);
        until_nothing_is_left(&database).await;
    }
}

fn report(turns: &[Turn], faulted: Instant) {
    let first = turns.iter().find(|turn| turn.at > faulted).map(|turn| turn.at - faulted);
    let last = turns.last().map(|turn| turn.at.saturating_duration_since(faulted));
    let (pause, number) = longest_pause(turns);
    let waited = turns.iter().map(|turn| turn.waited).max();
    eprintln!(
        "grants after the fault from {first:?} to {last:?}, waits up to {waited:?}, \
         the longest pause {pause:?} before {number}"
    );
}

#[tokio::test]
async fn twenty_waiters_are_served_in_order_after_a_step_down() {
    let setup = setup().await;
    setup.goes_on(0, async |set, _| _ = set.step_down().await).await;
}

#[tokio::test]
async fn twenty_waiters_are_served_in_order_with_a_step_down_between() {
    let setup = setup().await;
    setup.goes_on(7, async |set, _| _ = set.step_down().await).await;
}

#[tokio::test]
async fn twenty_waiters_are_served_in_order_when_the_primary_dies() {
    setup().await.goes_on(0, async |set, primary| set.node(primary).kill()).await;
}

#[tokio::test]
async fn twenty_waiters_are_served_in_order_if_a_primary_dies_between() {
    setup().await.goes_on(7, async |set, primary| set.node(primary).kill()).await;
}

/// The old primary wakes when another is primary, and believes for a moment that it still is.
#[tokio::test]
async fn twenty_waiters_are_served_in_order_when_the_primary_resumes() {
    let stop_and_go_on = async |set: &ReplicaSet, primary| {
        set.node(primary).pause();
        set.wait_for_primary_other_than(primary).await;
        set.node(primary).resume();
    };
    setup().await.goes_on(0, stop_and_go_on).await;
}

#[tokio::test]
async fn twenty_waiters_are_served_in_order_when_the_primary_hangs() {
    setup().await.goes_on(7, async |set, primary| set.node(primary).pause()).await;
}
