//! Calls that wait for permits.

use std::time::Duration;

use mongo_lease::{Error, Event, Lease, LeaseManager, Released, Tuning};
use tokio::task::JoinHandle;

use super::{granted, queued, queued_by};
use crate::both::{Backend, check};
use crate::patience::{Listener, bounded, soon, until};

/// Of two managers each, all permits of the name.
async fn full(backend: &Backend, limit: u32) -> (LeaseManager, Vec<Lease>) {
    let leases = backend.manager().await;
    let mut held = Vec::new();
    for _ in 0..limit {
        held.push(leases.semaphore("a", limit).acquire().await.unwrap());
    }
    (leases, held)
}

#[tokio::test]
async fn waiting_calls_are_admitted_in_their_order() {
    check(async |backend| {
        let (_leases, mut held) = full(&backend, 2).await;
        let mut waiting = Vec::new();
        for _ in 0..5 {
            waiting.push(queued(&backend, |leases| leases.semaphore("a", 2).acquire()).await);
        }
        for (_manager, call) in waiting {
            assert_eq!(held.remove(0).release().await.unwrap(), Released::Released);
            held.push(granted(call).await);
        }
        for lease in held {
            assert!(lease.is_valid());
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn one_release_admits_all_who_fit() {
    check(async |backend| {
        let leases = backend.manager().await;
        let all = leases.semaphore("a", 4).acquire().permits(4).await.unwrap();
        let mut waiting = Vec::new();
        for permits in [1, 2, 1] {
            let one = |leases: &LeaseManager| leases.semaphore("a", 4).acquire().permits(permits);
            waiting.push(queued(&backend, one).await);
        }
        all.release().await.unwrap();
        for (_manager, call) in waiting {
            assert!(granted(call).await.is_valid());
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_that_does_not_fit_is_not_overtaken() {
    check(async |backend| {
        let (_leases, held) = full(&backend, 3).await;
        let many = |leases: &LeaseManager| leases.semaphore("a", 3).acquire().permits(3);
        let (_first, many) = queued(&backend, many).await;
        let one = |leases: &LeaseManager| leases.semaphore("a", 3).acquire();
        let (second, one) = queued(&backend, one).await;
        let mut held = held.into_iter();
        held.next().unwrap().release().await.unwrap();
        // One permit is free, and the first in the queue needs three.
        assert!(!second.semaphore("a", 3).try_acquire().await.unwrap().is_granted());
        assert!(!one.is_finished());
        for lease in held {
            lease.release().await.unwrap();
        }
        let many = granted(many).await;
        assert!(!one.is_finished());
        many.release().await.unwrap();
        assert!(granted(one).await.is_valid());
    })
    .await;
}

/// Trap 2: nobody becomes an exclusive holder because somebody leaves the queue. Here it makes room.
#[tokio::test]
async fn a_call_that_gives_up_lets_those_behind_it_in() {
    check(async |backend| {
        let (_leases, mut held) = full(&backend, 3).await;
        let many = |leases: &LeaseManager| leases.semaphore("a", 3).acquire().permits(2);
        let (_first, many) = queued(&backend, many).await;
        let one = |leases: &LeaseManager| leases.semaphore("a", 3).acquire();
        let (_second, one) = queued(&backend, one).await;
        held.remove(0).release().await.unwrap();
        assert!(!one.is_finished());
        many.abort();
        assert!(many.await.unwrap_err().is_cancelled());
        assert!(granted(one).await.is_valid());
    })
    .await;
}

/// The server has told this writer of the reader that holds, so its manager begins with the command that admits.
#[tokio::test]
async fn a_writer_that_gives_up_lets_readers_in() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _reader = leases.acquire("a").shared().await.unwrap();
        let (_first, writer) = queued(&backend, |leases| leases.acquire("a")).await;
        let (_second, reader) = queued(&backend, |leases| leases.acquire("a").shared()).await;
        writer.abort();
        assert!(writer.await.unwrap_err().is_cancelled());
        assert!(granted(reader).await.is_valid());
    })
    .await;
}

/// This writer came while another one held. Its manager begins with the command of exclusive leases, which must leave
/// the queue as it is: by removing the entry alone, it would let the readers sleep.
#[tokio::test]
async fn a_writer_that_saw_no_reader_lets_readers_in_too() {
    check(async |backend| {
        let leases = backend.manager().await;
        let held = leases.acquire("a").await.unwrap();
        let reader = |leases: &LeaseManager| leases.acquire("a").shared();
        let (_first, first) = queued(&backend, reader).await;
        let (_second, writer) = queued(&backend, |leases| leases.acquire("a")).await;
        let (_third, last) = queued(&backend, reader).await;
        held.release().await.unwrap();
        let _reading = granted(first).await;
        assert!(!last.is_finished(), "the writer is before it");
        writer.abort();
        assert!(writer.await.unwrap_err().is_cancelled());
        assert!(granted(last).await.is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_over_leaves_the_queue() {
    check(async |backend| {
        let (leases, held) = full(&backend, 2).await;
        // Its entry does not expire within the test.
        let brief = backend
            .builder()
            .tuning(Tuning::default().waiter_ttl(Duration::from_secs(60)))
            .build()
            .await
            .unwrap();
        let mut events = Listener::of(&brief);
        let acquire = brief.semaphore("a", 2).acquire().permits(2);
        let waits = tokio::spawn(acquire.wait(Duration::from_secs(2)).into_future());
        events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
        let error = soon("the wait is over", waits).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        let has_left = async || {
            let shown = leases.get("a").await.unwrap().expect("it is held");
            (shown.waiting == 0).then_some(())
        };
        until("it has left", has_left).await;
        drop(held);
        assert!(leases.semaphore("a", 2).acquire().permits(2).await.unwrap().is_valid());
    })
    .await;
}

/// Calls of one process: with one entry for all of them, each event would admit one.
#[tokio::test]
async fn several_calls_of_one_process_are_admitted_together() {
    check(async |backend| {
        let writer = backend.manager().await;
        let held = writer.acquire("a").await.unwrap();
        let readers = backend.manager().await;
        let mut calls: Vec<JoinHandle<_>> = Vec::new();
        for _ in 0..5 {
            calls.push(queued_by(&readers, |leases| leases.acquire("a").shared()).await);
        }
        let (_other, next) = queued(&backend, |leases| leases.acquire("a")).await;
        held.release().await.unwrap();
        let mut reading = Vec::new();
        for call in calls {
            reading.push(granted(call).await);
        }
        assert!(reading.iter().all(Lease::is_valid));
        assert!(!next.is_finished(), "a writer beside readers");
        for lease in reading {
            lease.release().await.unwrap();
        }
        assert!(granted(next).await.is_valid());
    })
    .await;
}

#[tokio::test]
async fn many_calls_of_one_process_take_turns() {
    check(async |backend| {
        let leases = backend.manager().await;
        let semaphore = leases.semaphore("a", 3);
        let most = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
        let calls = (0..40).map(|_| {
            let (semaphore, most) = (semaphore.clone(), most.clone());
            tokio::spawn(async move {
                let lease = semaphore.acquire().await.unwrap();
                {
                    let mut most = most.lock().unwrap();
                    most.0 += 1;
                    most.1 = most.1.max(most.0);
                }
                tokio::task::yield_now().await;
                most.lock().unwrap().0 -= 1;
                assert!(lease.is_valid());
                lease.release().await.unwrap();
            })
        });
        for call in calls.collect::<Vec<_>>() {
            bounded(call).await.unwrap();
        }
        let (now, at_once) = *most.lock().unwrap();
        assert_eq!(now, 0);
        assert!((1..=3).contains(&at_once), "{at_once} at once");
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn entries_of_one_process_outlive_their_first_ttl() {
    check(async |backend| {
        let leases = backend.manager().await;
        let two = |leases: &LeaseManager| leases.semaphore("a", 3).acquire().permits(2);
        let mut held = two(&leases).await.unwrap();
        // It tries again long after the test.
        let patient = backend
            .builder()
            .tuning(
                Tuning::default()
                    .waiter_ttl(Duration::from_secs(2))
                    .recheck_every(Duration::from_secs(60)),
            )
            .build()
            .await
            .unwrap();
        let mut events = Listener::of(&patient);
        let calls = [queued_by(&patient, two).await, queued_by(&patient, two).await];
        // Until then it polls, and each poll refreshes its entry.
        events.watching().await;
        // Four renewals of another lease, a second apart: without heartbeats the entries have expired.
        let _clock = patient.acquire("clock").ttl(Duration::from_secs(3)).await.unwrap();
        events.renewals("clock", 4).await;
        // One permit is free, and only a live entry keeps it from others.
        let late = backend.manager().await;
        assert!(!late.semaphore("a", 3).try_acquire().await.unwrap().is_granted());
        // In their order: the first one has the entry with which it came.
        for call in calls {
            held.release().await.unwrap();
            held = granted(call).await;
            assert!(held.is_valid());
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_change_stream_permits_are_polled_for() {
    check(async |backend| {
        let (_leases, held) = full(&backend, 2).await;
        let polling =
            backend.builder().tuning(Tuning::default().change_stream(false)).build().await.unwrap();
        let call = queued_by(&polling, |leases| leases.semaphore("a", 2).acquire()).await;
        drop(held);
        assert!(granted(call).await.is_valid());
    })
    .await;
}

/// The writer sleeps until the end of the holder that lasts longest. When that one goes, a dead one may be left.
#[tokio::test]
async fn a_release_tells_the_first_waiter_of_an_earlier_end() {
    check(async |backend| {
        let leases = backend.manager().await;
        let shared = || leases.acquire("a").shared().renew(false);
        let long = shared().ttl(Duration::from_secs(600)).await.unwrap();
        // Like the lease of a process that has died: nobody renews it, and nobody releases it.
        let _dead = shared().ttl(Duration::from_secs(4)).await.unwrap();
        let (_writers, writer) = queued(&backend, |leases| leases.acquire("a")).await;
        assert_eq!(long.release().await.unwrap(), Released::Released);
        assert!(granted(writer).await.is_valid());
    })
    .await;
}
