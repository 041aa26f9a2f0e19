//! Drops of a lease, or of the future of a method.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Lease, LostReason};

use crate::both::check;
use crate::common::{SHORT_TTL, assert_done, document, setup};
use crate::keys::lost;
use crate::patience::{Listener, PATIENCE, expires_at, until, until_free, until_nothing_is_left};

/// Polls the future until it has sent a command to the database, and drops it.
///
/// A machine that holds this thread up between two polls lets the reply come first. Then this returns it.
async fn begin_and_drop<F: Future>(future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending(), "the first poll sends the command and cannot have its reply");
    for _ in 0..2 {
        tokio::task::yield_now().await;
        if let Poll::Ready(output) = poll() {
            return Some(output);
        }
    }
    tokio::task::yield_now().await;
    None
}

const TTL: Duration = Duration::from_secs(6);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Before its manager, or after it.
#[tokio::test]
async fn a_dropped_lease_is_given_back() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (first, last) =
            (leases.acquire("a").await.unwrap(), leases.acquire("b").ttl(TTL).await.unwrap());
        let token = first.cancellation_token();
        drop(first);
        assert!(token.is_cancelled());
        let mut events = Listener::of(&leases);
        drop(leases);
        // A lease keeps its renewals alive.
        events.renewals("b", 2).await;
        assert!(last.is_valid());
        drop(last);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[test]
fn a_lease_that_is_dropped_outside_a_runtime_is_given_back() {
    let runtime = runtime();
    let (database, lease) = runtime.block_on(async {
        let (database, leases) = setup().await;
        (database, leases.acquire("a").await.unwrap())
    });
    std::thread::spawn(move || drop(lease)).join().expect("no panic");
    runtime.block_on(until_nothing_is_left(&database));
}

/// Counts the leases whose drop is complete.
struct Counted(Option<Lease>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        drop(self.0.take());
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Nor do those that outlive their runtime.
#[test]
fn leases_dropped_by_a_runtime_shutdown_do_not_panic() {
    let runtime = runtime();
    let dropped = Arc::new(AtomicUsize::new(0));
    let (outlives, other) = runtime.block_on(async {
        let (_database, leases) = setup().await;
        for number in 0..10 {
            let lease = leases.acquire(format!("lease:{number}")).await.unwrap();
            let lease = Counted(Some(lease), Arc::clone(&dropped));
            // The end of the runtime drops the tasks, and the leases in them.
            tokio::spawn(async move {
                let _lease = lease;
                std::future::pending::<()>().await;
            });
        }
        let outlives = leases.acquire("a").ttl(SHORT_TTL).await.unwrap();
        (outlives, leases.acquire("b").await.unwrap())
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    runtime.shutdown_timeout(PATIENCE);
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
    drop(other);
    // No task renews it any more, and none can report the loss: its own clock ends it.
    while outlives.is_valid() {
        std::thread::yield_now();
    }
    assert!(matches!(outlives.check(), Err(Error::Lost { .. })));
}

#[tokio::test]
async fn a_dropped_release_goes_on() {
    check(async |backend| {
        let leases = backend.manager().await;
        let other = leases.acquire("other").await.unwrap();
        let lease = leases.acquire("a").await.unwrap();
        let token = lease.cancellation_token();
        begin_and_drop(lease.release()).await;
        assert!(token.is_cancelled());
        until_free(&leases, "a").await;
        // Also one that was never polled: the lease is dropped with it.
        drop(leases.acquire("b").await.unwrap().release());
        until_free(&leases, "b").await;
        // Also by name and value, and twice.
        let lease = leases.acquire("c").await.unwrap();
        begin_and_drop(leases.release("c", lease.value())).await;
        begin_and_drop(leases.release("c", lease.value())).await;
        until_free(&leases, "c").await;
        other.renew().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_dropped_resume_keeps_the_lease_held_and_releasable() {
    let (database, leases) = setup().await;
    let mut key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let before = loop {
        let before = expires_at(&database, "a").await;
        match begin_and_drop(leases.resume(key.clone())).await {
            None => break before,
            // The reply came before the drop.
            Some(resumed) => key = resumed.unwrap().detach().await.unwrap(),
        }
    };
    // A command that was sent is carried out, and has used up the key.
    let renewed = async || (expires_at(&database, "a").await > before).then_some(());
    until("the resume is carried out", renewed).await;
    assert_eq!(lost(leases.resume(key.clone()).await), LostReason::Resumed);
    assert_done(leases.release("a", key.value()).await.unwrap(), "by name and value");
}

#[tokio::test]
async fn dropped_looks_renewals_and_runs_leave_the_lease_held() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let before = document(&database, "a").await;
    begin_and_drop(leases.get("a")).await;
    begin_and_drop(leases.ping()).await;
    {
        let mut list = pin!(leases.list().stream().unwrap());
        assert!(list.next().now_or_never().is_none());
    }
    begin_and_drop(lease.lost()).await;
    begin_and_drop(lease.run(std::future::pending::<()>())).await;
    assert_eq!(document(&database, "a").await, before);
    let left = lease.remaining();
    let renewed = begin_and_drop(lease.renew()).await;
    assert!(lease.is_valid() && (renewed.is_some() || lease.remaining() <= left));
    lease.renew().await.unwrap();
    assert_eq!(leases.get("a").await.unwrap().unwrap().value.as_deref(), Some(lease.value()));
    drop(lease);
    assert_eq!(leases.shutdown().await.tasks_left, 0);
}
