//! The outcomes of waiting.

use mongo_lease::{Acquire, Error, Event, Lease, LeaseManager, Result, Tuning};
use tokio::task::JoinHandle;

use super::{Backend, check};
use crate::patience::{Listener, soon};

/// A call of a manager of its own, which waits in the queue when this returns.
async fn queued(
    backend: &Backend,
    options: impl FnOnce(Acquire) -> Acquire,
) -> (LeaseManager, JoinHandle<Result<Lease>>) {
    let leases = backend.manager().await;
    let mut events = Listener::of(&leases);
    let call = tokio::spawn(options(leases.acquire("a")).into_future());
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    (leases, call)
}

#[tokio::test]
async fn processes_are_granted_in_their_order_with_rising_tokens() {
    check(async |backend| {
        let leases = backend.manager().await;
        let mut held = leases.acquire("a").await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..6 {
            waiting.push(queued(&backend, |acquire| acquire).await);
        }
        assert_eq!(leases.get("a").await.unwrap().unwrap().waiting, 6);
        for (number, (_leases, call)) in waiting.into_iter().enumerate() {
            let token = held.token().unwrap();
            held.release().await.unwrap();
            held = soon("the next one is granted the lease", call).await.unwrap().unwrap();
            assert!(held.token().unwrap() > token, "{number}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_the_queue_to_the_next() {
    check(async |backend| {
        let leases = backend.manager().await;
        let held = leases.acquire("a").await.unwrap();
        let (_first, gone) = queued(&backend, |acquire| acquire).await;
        let (_second, stays) = queued(&backend, |acquire| acquire).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        held.release().await.unwrap();
        let lease = soon("the other is granted the lease", stays).await.unwrap().unwrap();
        lease.release().await.unwrap();
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_refuses_one_more_process() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("a").await.unwrap();
        let (_first, waits) = queued(&backend, |acquire| acquire).await;
        let one_too_many =
            backend.builder().tuning(Tuning::default().max_waiting(1)).build().await.unwrap();
        let error = one_too_many.acquire("a").await.unwrap_err();
        assert!(matches!(error, Error::QueueFull { waiting: 1, .. }), "{error}");
        waits.abort();
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_hands_its_leases_to_those_who_wait() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("a").await.unwrap();
        let (_other, waits) = queued(&backend, |acquire| acquire.wait_forever()).await;
        assert_eq!(leases.shutdown().await.released, 1);
        let lease = soon("the waiter is granted the lease", waits).await.unwrap().unwrap();
        assert!(lease.is_valid());
    })
    .await;
}

#[tokio::test]
async fn without_a_change_stream_a_waiter_polls_and_is_granted() {
    check(async |backend| {
        let leases = backend.manager().await;
        let held = leases.acquire("a").await.unwrap();
        let polling =
            backend.builder().tuning(Tuning::default().change_stream(false)).build().await.unwrap();
        let mut events = Listener::of(&polling);
        let call = tokio::spawn(polling.acquire("a").into_future());
        events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
        held.release().await.unwrap();
        assert!(soon("it is granted the lease", call).await.unwrap().unwrap().is_valid());
    })
    .await;
}
