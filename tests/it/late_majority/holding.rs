//! Renewals that a late majority confirms.

use std::time::Duration;

use mongo_lease::{Event, Lease, LeaseManager, LostReason, MemoryStore, Released, Tuning};
use tokio::time::Instant;

use super::{SECOND, late_by, manager, seconds, within_a_second};
use crate::patience::{Listener, pass};

async fn ten_leases(leases: &LeaseManager) -> Vec<Lease> {
    let mut held = Vec::new();
    for number in 0..10 {
        held.push(leases.acquire(format!("lease:{number}")).await.unwrap());
    }
    held
}

#[tokio::test(start_paused = true)]
async fn no_lease_is_lost_while_a_majority_is_late() {
    for delay in seconds() {
        let (store, leases) = late_by(Duration::ZERO).await;
        let mut held = ten_leases(&leases).await;
        for number in 0..2 {
            let permit = leases.semaphore("permits", 2).acquire().await;
            held.push(permit.unwrap_or_else(|error| panic!("permit {number}: {error}")));
        }
        store.set_majority_delay(delay);
        for second in 0..600 {
            pass(SECOND).await;
            for lease in &held {
                let lost = lease.check().err().map(|error| error.to_string());
                assert_eq!(lost, None, "late by {delay:?}, after {second} s");
            }
        }
    }
}

/// The reads that wait for a majority leave room for the other commands, also where there is one slot for all.
#[tokio::test(start_paused = true)]
async fn few_slots_are_enough() {
    for (delay, slots) in seconds().flat_map(|delay| [1, 2].map(|slots| (delay, slots))) {
        let store = MemoryStore::new();
        let tuning = Tuning::default().max_in_flight(slots);
        let leases = LeaseManager::in_memory(&store).tuning(tuning).release_timeout(15 * SECOND);
        let leases = leases.build().await.unwrap();
        let held = ten_leases(&leases).await;
        store.set_majority_delay(delay);
        for round in 0..20 {
            let started = Instant::now();
            let lease = leases.acquire("often").await.unwrap();
            let lease = within_a_second(started, delay, lease);
            let started = Instant::now();
            let released = lease.release().await.unwrap();
            assert_eq!(within_a_second(started, delay, released), Released::Released);
            let lost: Vec<_> = held.iter().filter_map(|lease| lease.check().err()).collect();
            assert!(lost.is_empty(), "{slots} slots, late by {delay:?}, round {round}: {lost:?}");
        }
    }
}

/// As in the table of outages. Two renewals of a lease wait for the majority at a time.
#[tokio::test(start_paused = true)]
async fn no_lease_is_lost_below_two_thirds_of_its_ttl() {
    let (store, leases) = late_by(Duration::ZERO).await;
    let held = ten_leases(&leases).await;
    store.set_majority_delay(19 * SECOND);
    pass(600 * SECOND).await;
    assert!(held.iter().all(Lease::is_valid));
}

/// With a majority that is late for ever, the lease is lost when its validity ends, and not later.
#[tokio::test(start_paused = true)]
async fn an_applied_renewal_prolongs_nothing_before_a_majority_has_it() {
    let (store, leases) = late_by(Duration::ZERO).await;
    let lease = leases.acquire("a").await.unwrap();
    let granted = Instant::now();
    store.set_majority_delay(3_600 * SECOND);
    pass(15 * SECOND).await;
    assert!(lease.remaining() <= Duration::from_millis(14_700), "{:?}", lease.remaining());
    let reason = lease.lost().await;
    assert!(matches!(reason, LostReason::OutOfReach { .. }), "{reason}");
    let held = granted.elapsed();
    let (least, most) = (Duration::from_millis(29_700), Duration::from_millis(29_705));
    assert!((least..=most).contains(&held), "{held:?}");
}

/// Another primary has the grant, and not the renewal: the id alone would show it.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_failover_undid_is_sent_again() {
    let (store, leases) = late_by(Duration::ZERO).await;
    let lease = leases.acquire("a").await.unwrap();
    let mut events = Listener::of(&leases);
    store.set_majority_delay(5 * SECOND);
    pass(12 * SECOND).await;
    assert!(lease.remaining() < 18 * SECOND, "{:?}", lease.remaining());
    store.undo_late();
    store.set_majority_delay(Duration::ZERO);
    events.times(1, |event| matches!(event, Event::RenewalFailed { .. })).await;
    assert!(lease.remaining() < 18 * SECOND, "{:?}", lease.remaining());
    events.times(1, |event| matches!(event, Event::Renewed { .. })).await;
    pass(60 * SECOND).await;
    assert!(lease.is_valid());
}

/// The lease was granted to another one meanwhile, by the primary that never had the renewal.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_another_holder_replaced_is_a_loss() {
    let (store, leases) = late_by(Duration::ZERO).await;
    let lease = leases.acquire("a").await.unwrap();
    let other = manager(&store).await;
    store.set_majority_delay(5 * SECOND);
    pass(12 * SECOND).await;
    store.undo_late();
    assert!(store.release("a"));
    store.set_majority_delay(Duration::ZERO);
    let _theirs = other.acquire("a").await.unwrap();
    let reason = lease.lost().await;
    assert!(matches!(reason, LostReason::TakenOver { .. } | LostReason::Removed), "{reason}");
    assert!(lease.remaining().is_zero());
}

/// A renewal of 3 s has 600 ms for its command. Its neighbours of 30 s, which are due at the same moment, have 2 s.
#[tokio::test(start_paused = true)]
async fn a_short_lease_leaves_its_long_neighbours_their_time() {
    let (store, leases) = late_by(Duration::ZERO).await;
    let mut held = ten_leases(&leases).await;
    held.push(leases.acquire("short").ttl(3 * SECOND).await.unwrap());
    let mut events = Listener::of(&leases);
    pass(Duration::from_millis(9_500)).await;
    let hang = store.hang();
    pass(Duration::from_millis(1_500)).await;
    drop(hang);
    pass(4 * SECOND).await;
    let mut failed = Vec::new();
    for event in events.so_far() {
        if let Event::RenewalFailed { name, .. } = event {
            failed.push(name);
        }
    }
    assert!(failed.iter().all(|name| name == "short"), "{failed:?}");
    assert!(!failed.is_empty(), "the hang was too short to show anything");
    assert!(held.iter().all(Lease::is_valid));
}
