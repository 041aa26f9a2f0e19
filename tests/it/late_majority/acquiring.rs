//! Grants that a late majority confirms.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::{
    Acquire, CommandKind, Lease, LeaseManager, MemoryFault, MemoryStore, Released, Tuning,
};
use tokio::time::Instant;

use super::{SECOND, late_by, manager, seconds, within_a_second};
use crate::common::short_or_long;
use crate::patience::pass;

const COUNT: usize = 40;
const TENTH: Duration = Duration::from_millis(100);

fn name_of(number: usize) -> String {
    format!("lease:{number}")
}

/// Every other lease of `COUNT`.
async fn hold_even(leases: &LeaseManager) -> Vec<Lease> {
    let calls = (0..COUNT).step_by(2).map(|number| leases.acquire(name_of(number)).into_future());
    join_all(calls).await.into_iter().map(|it| it.unwrap()).collect()
}

/// One acquire of each kind.
fn kinds(leases: &LeaseManager) -> [(&'static str, Acquire); 3] {
    [
        ("exclusive", leases.acquire("a")),
        ("permit", leases.semaphore("permits", 2).acquire()),
        ("value", leases.acquire("b").value("mine")),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_acquire_is_granted_when_a_majority_has_it() {
    for delay in seconds() {
        let (_store, leases) = late_by(delay).await;
        for (kind, acquire) in kinds(&leases) {
            let started = Instant::now();
            let lease = within_a_second(started, delay, acquire.await.unwrap());
            pass(60 * SECOND).await;
            assert!(lease.is_valid(), "{kind} with a delay of {delay:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_acquires_are_granted_together() {
    let count = short_or_long(300, 100_000);
    for delay in seconds() {
        let (_store, leases) = late_by(delay).await;
        let started = Instant::now();
        let names = (0..count).map(|number| format!("lease:{number}"));
        let calls = names.map(|name| leases.acquire(name).into_future());
        let held = within_a_second(started, delay, join_all(calls).await);
        let names: BTreeSet<&str> = held.iter().map(|it| it.as_ref().unwrap().name()).collect();
        assert_eq!(names.len(), count);
    }
}

/// They travel in one command with others that are granted.
#[tokio::test(start_paused = true)]
async fn busy_leases_are_refused_at_once() {
    // A call that does not wait has 10 s for its answer.
    for delay in seconds().filter(|delay| *delay < 10 * SECOND) {
        let (store, other) = late_by(Duration::ZERO).await;
        let _held = hold_even(&other).await;
        let leases = manager(&store).await;
        store.set_majority_delay(delay);
        // It has met the delay.
        let _first = leases.acquire("first").await.unwrap();
        let started = Instant::now();
        let calls = (0..COUNT).map(|number| {
            let call = leases.try_acquire(name_of(number)).into_future();
            async move { (call.await.unwrap().is_granted(), started.elapsed()) }
        });
        for (number, (is_granted, took)) in join_all(calls).await.into_iter().enumerate() {
            let time = if is_granted { delay..=delay + SECOND } else { Duration::ZERO..=TENTH };
            assert_eq!(is_granted, number % 2 == 1, "{number}");
            assert!(time.contains(&took), "{number}: {took:?} with a delay of {delay:?}");
        }
    }
}

/// So a release that comes soon after it hands the lease off. Their first attempts travel in one command.
#[tokio::test(start_paused = true)]
async fn calls_for_busy_leases_wait_in_line_at_once() {
    for delay in seconds() {
        let store = MemoryStore::new();
        let other = LeaseManager::in_memory(&store).release_timeout(15 * SECOND);
        let other = other.build().await.unwrap();
        let held = hold_even(&other).await;
        // With 10 s, a promotion is too old for its waiter when a majority has it.
        let tuning = Tuning::default().waiter_ttl(30 * SECOND);
        let leases = LeaseManager::in_memory(&store).tuning(tuning).build().await.unwrap();
        store.set_majority_delay(delay);
        let _first = leases.acquire("first").await.unwrap();
        let acquire = |number| leases.acquire(name_of(number)).into_future();
        let calls: Vec<_> = (0..COUNT).map(|number| tokio::spawn(acquire(number))).collect();
        pass(TENTH).await;
        let started = Instant::now();
        let released = join_all(held.into_iter().map(|lease| lease.release())).await;
        assert!(released.iter().all(|it| *it.as_ref().unwrap() == Released::Released));
        let granted = within_a_second(started, delay, join_all(calls).await);
        assert!(granted.into_iter().all(|it| it.unwrap().is_ok()));
    }
}

/// Each is a command of its own, and its slot is free again before a majority has it.
#[tokio::test(start_paused = true)]
async fn many_permits_are_granted_together() {
    for delay in seconds() {
        let (_store, leases) = late_by(delay).await;
        let semaphores: Vec<_> =
            (0..40).map(|number| leases.semaphore(format!("permits:{number}"), 10)).collect();
        let started = Instant::now();
        let calls = semaphores.iter().flat_map(|it| (0..10).map(|_| it.acquire().into_future()));
        let held = within_a_second(started, delay, join_all(calls).await);
        assert!(held.into_iter().all(|it| it.is_ok()));
    }
}

/// An acquire waits until the release of its process is applied, and not until a majority has that.
#[tokio::test(start_paused = true)]
async fn a_dropped_lease_is_acquired_again_by_its_process() {
    for delay in seconds() {
        let (store, leases) = late_by(Duration::ZERO).await;
        let exclusive = |leases: &LeaseManager| leases.acquire("a");
        let permit = |leases: &LeaseManager| leases.semaphore("p", 1).acquire();
        for acquire in [exclusive, permit] {
            let lease = acquire(&leases).await.unwrap();
            store.set_majority_delay(delay);
            let started = Instant::now();
            drop(lease);
            let lease = within_a_second(started, delay, acquire(&leases).await.unwrap());
            assert!(lease.is_valid());
            store.set_majority_delay(Duration::ZERO);
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
    }
}

/// A second attempt would meet the fault, and end the call.
#[tokio::test(start_paused = true)]
async fn an_applied_attempt_is_not_repeated() {
    for (number, kind) in ["exclusive", "permit", "value"].into_iter().enumerate() {
        let (store, leases) = late_by(20 * SECOND).await;
        let [first, second, third] = kinds(&leases);
        let acquire = [first, second, third].into_iter().nth(number).unwrap().1;
        let call = tokio::spawn(acquire.into_future());
        pass(SECOND).await;
        store.fail_next(CommandKind::Acquire, MemoryFault::Refused);
        let lease = call.await.unwrap().unwrap();
        assert_eq!(store.faults_left(), 1, "{kind}");
        assert!(lease.remaining() < 10 * SECOND, "{kind}: {:?}", lease.remaining());
    }
}

/// A majority that is late for longer than the call waits: the grant is given back.
#[tokio::test(start_paused = true)]
async fn a_grant_that_no_majority_has_in_time_is_given_back() {
    let delay = 20 * SECOND;
    let (store, leases) = late_by(delay).await;
    let started = Instant::now();
    assert!(leases.acquire("a").wait(5 * SECOND).await.is_err());
    assert!(started.elapsed() <= 6 * SECOND, "{:?}", started.elapsed());
    pass(SECOND).await;
    let other = manager(&store).await;
    let started = Instant::now();
    let _lease = within_a_second(started, delay, other.acquire("a").await.unwrap());
}

/// The primary has carried the release of it out when the next call comes.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_gives_its_applied_grant_back_at_once() {
    for delay in seconds() {
        let (store, leases) = late_by(delay).await;
        let other = manager(&store).await;
        for name in ["a", "b"] {
            let call = tokio::spawn(leases.acquire(name).into_future());
            pass(SECOND).await;
            call.abort();
            pass(Duration::from_millis(10)).await;
            let started = Instant::now();
            let _lease = within_a_second(started, delay, other.acquire(name).await.unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_a_failover_undid_is_made_again() {
    let (store, leases) = late_by(10 * SECOND).await;
    let other = manager(&store).await;
    let calls: Vec<_> = (0..20)
        .map(|number| tokio::spawn(leases.acquire(format!("lease:{number}")).into_future()))
        .collect();
    pass(4 * SECOND).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    store.undo_late();
    store.set_majority_delay(Duration::ZERO);
    for (number, call) in calls.into_iter().enumerate() {
        let lease = call.await.unwrap().unwrap();
        let second = other.try_acquire(format!("lease:{number}")).await.unwrap();
        assert!(!second.is_granted(), "lease {number} is not there");
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
}
