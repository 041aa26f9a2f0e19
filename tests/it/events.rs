//! The events of a manager's leases, and the methods that run work under one.

use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::{
    CommandKind, Error, Event, Lease, LeaseManager, LostReason, MemoryFault, MemoryStore, Released,
};
use tokio::time::Instant;

use crate::both::{Backend, check};
use crate::common::{SHORT_TTL, patient};
use crate::patience::{Listener, pass};

const TTL: Duration = Duration::from_secs(3);
/// A few ticks of the clock.
const TICKS: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn failing_renewals_tell_what_is_left_and_then_comes_the_loss() {
    const TTL: Duration = Duration::from_secs(15);
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let mut events = Listener::of(&leases);
    for _ in 0..100 {
        store.fail_next(CommandKind::Renew, MemoryFault::Refused);
    }
    let begin = Instant::now();
    let lease = leases.acquire("a").ttl(TTL).await.unwrap();
    let valid = lease.remaining();

    let (mut left, mut first) = (vec![TTL], None);
    let reason = events.find(|event| match event {
        Event::Granted { .. } => None,
        Event::RenewalFailed { remaining, reason, .. } => {
            assert!(!reason.is_empty());
            first.get_or_insert(begin.elapsed());
            left.push(*remaining);
            None
        }
        Event::Lost { reason, .. } => Some(reason.clone()),
        other => panic!("{other:?}"),
    });
    let reason = reason.await;
    let took = begin.elapsed();
    assert!(took >= valid && took <= valid + TICKS, "{took:?} of {valid:?}");
    assert!(left.len() > 3, "it was not tried again: {left:?}");
    assert!(left.is_sorted_by(|earlier, later| later < earlier), "{left:?}");
    assert_eq!(lease.lost().await, reason);
    let LostReason::OutOfReach { since, .. } = reason else {
        panic!("{reason}");
    };
    // Since the first failure, and not since the last.
    let expected = took - first.expect("a failure");
    assert!(since.abs_diff(expected) <= TICKS, "{since:?} and not {expected:?}");
}

#[tokio::test]
async fn a_slow_listener_learns_how_much_it_missed_and_delays_nobody() {
    check(async |backend| {
        const AT_ONCE: usize = 100;
        const LEASES: usize = 4 * AT_ONCE;
        let leases = patient(backend.builder()).build().await.unwrap();
        let mut slow = Listener::of(&leases);
        let mut quick = Listener::of(&leases);
        let mut told = 0;
        for _ in 0..LEASES / AT_ONCE {
            let acquire = |number| leases.acquire(format!("lease:{number}")).into_future();
            let held = try_join_all((0..AT_ONCE).map(acquire)).await.unwrap();
            try_join_all(held.iter().map(Lease::renew)).await.unwrap();
            try_join_all(held.into_iter().map(Lease::release)).await.unwrap();
            told += quick.so_far().len();
        }
        assert_eq!(told, 3 * LEASES);
        let Event::Missed(missed) = slow.next().await else {
            panic!("it has missed something");
        };
        assert_eq!(usize::try_from(missed).unwrap() + slow.so_far().len(), 3 * LEASES);
    })
    .await;
}

// The defect of Rust `rslock`: the user's future is not polled while a renewal is under way.
#[tokio::test(start_paused = true)]
async fn the_work_goes_on_while_a_renewal_is_under_way() {
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let lease = leases.acquire("a").ttl(3 * TTL).await.unwrap();
    store.fail_next(CommandKind::Renew, MemoryFault::Refused);
    let (begin, hang) = (Instant::now(), store.hang());
    let output = lease.run(async {
        // The first renewal has been sent, and is not answered, when the work ends.
        for _ in 0..TTL.as_secs() + 1 {
            pass(Duration::from_secs(1)).await;
        }
        assert_eq!(store.faults_left(), 0);
    });
    output.await.unwrap();
    let took = begin.elapsed();
    assert!(took <= TTL + Duration::from_secs(1) + TICKS, "{took:?}");
    drop(hang);
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

/// Work that never reaches an `await` is not stopped, but its result does not count.
#[tokio::test]
async fn work_that_ends_behind_the_end_of_its_lease_has_not_succeeded() {
    check(async |backend| {
        let leases = backend.manager().await;
        let run = leases.acquire("a").ttl(SHORT_TTL).run(async |lease| {
            while lease.is_valid() {
                if let Backend::Memory(store) = &backend {
                    store.advance(SHORT_TTL);
                }
                std::thread::yield_now();
            }
        });
        let error = run.await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error}");
    })
    .await;
}
