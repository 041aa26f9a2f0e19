//! Drops of a lease, or of the future of a method.

use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Lease, LeaseManager, LostReason, Released};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::both::check;
use crate::common::{SHORT_TTL, builder, document, migrated, setup};
use crate::patience::{Listener, expires_at, locks, soon, until, until_nothing_is_left};

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

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn setup_on(server: &'static Server) -> (TestDatabase, LeaseManager) {
    let database = migrated(server).await;
    let leases = builder(&database).build().await.unwrap();
    (database, leases)
}

#[tokio::test]
async fn a_dropped_lease_is_given_back() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").await.unwrap();
        let token = lease.cancellation_token();
        drop(lease);
        assert!(token.is_cancelled());
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[test]
fn a_lease_that_is_dropped_outside_a_runtime_is_given_back() {
    let runtime = runtime();
    let (database, lease) = runtime.block_on(async {
        let (database, leases) = setup_on(Server::shared()).await;
        (database, leases.acquire("a").await.unwrap())
    });
    std::thread::spawn(move || drop(lease)).join().expect("no panic");
    runtime.block_on(until_nothing_is_left(&database));
}

#[test]
fn a_lease_that_outlives_its_runtime_is_dropped_without_a_panic() {
    let runtime = runtime();
    let (lease, other) = runtime.block_on(async {
        let (_database, leases) = setup_on(Server::shared()).await;
        let lease = leases.acquire("a").ttl(SHORT_TTL).await.unwrap();
        (lease, leases.acquire("b").await.unwrap())
    });
    drop(runtime);
    drop(other);
    // No task renews it any more, and none can report the loss: its own clock ends it.
    while lease.is_valid() {
        std::thread::yield_now();
    }
    assert!(matches!(lease.check(), Err(Error::Lost { .. })));
    drop(lease);
}

/// Counts the leases whose drop is complete.
struct Counted(Option<Lease>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        drop(self.0.take());
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn leases_dropped_by_a_runtime_shutdown_do_not_panic() {
    let runtime = runtime();
    let dropped = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let (_database, leases) = setup_on(Server::shared()).await;
        for number in 0..10 {
            let lease = leases.acquire(format!("lease:{number}")).await.unwrap();
            let lease = Counted(Some(lease), Arc::clone(&dropped));
            // The end of the runtime drops the tasks, and the leases in them.
            tokio::spawn(async move {
                let _lease = lease;
                std::future::pending::<()>().await;
            });
        }
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    runtime.shutdown_timeout(Duration::from_secs(5));
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
}

#[test]
fn the_last_lease_may_go_before_or_after_its_manager() {
    let runtime = runtime();
    runtime.block_on(async {
        let (database, leases) = setup_on(Server::shared()).await;
        let first = leases.acquire("a").await.unwrap();
        let second = leases.acquire("b").await.unwrap();
        drop(first);
        drop(leases);
        drop(second);
        until_nothing_is_left(&database).await;
    });
}

#[tokio::test]
async fn a_dropped_release_goes_on() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").await.unwrap();
        let token = lease.cancellation_token();
        begin_and_drop(lease.release()).await;
        assert!(token.is_cancelled());
        backend.until_nothing_is_left().await;
        // Also one that was never polled: the lease is dropped with it.
        drop(leases.acquire("b").await.unwrap().release());
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_renewal_keeps_the_lease_held_and_its_validity() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let before = lease.remaining();
    begin_and_drop(lease.renew()).await;
    assert!(lease.is_valid());
    assert!(lease.remaining() <= before);
    lease.renew().await.unwrap();
    assert!(document(&database, "a").await.is_some());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
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
    let error = leases.resume(key.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Resumed, .. }), "{error}");
    let released = leases.release("a", key.value()).await.unwrap();
    assert_eq!(released, Released::Released);
    assert_eq!(document(&database, "a").await, None);
}

#[tokio::test]
async fn dropped_looks_change_nothing() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let before = document(&database, "a").await;
    begin_and_drop(leases.get("a")).await;
    begin_and_drop(leases.ping()).await;
    {
        let mut list = pin!(leases.list().stream().unwrap());
        assert!(list.next().now_or_never().is_none());
    }
    begin_and_drop(lease.lost()).await;
    assert_eq!(document(&database, "a").await, before);
    assert!(lease.is_valid());
    assert_eq!(leases.get("a").await.unwrap().unwrap().value.as_deref(), Some(lease.value()));
    drop(lease);
    assert_eq!(leases.shutdown().await.tasks_left, 0);
}

/// The release may happen or not; it never touches another lease.
#[tokio::test]
async fn a_dropped_release_by_name_and_value_touches_no_other_lease() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").await.unwrap();
        let other = leases.acquire("b").await.unwrap();
        begin_and_drop(leases.release("a", lease.value())).await;
        begin_and_drop(leases.release("a", lease.value())).await;
        let gone = async || leases.get("a").await.unwrap().is_none().then_some(());
        until("what was sent arrives", gone).await;
        other.renew().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn dropping_with_lease_drops_the_work_and_releases_the_lease() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (alive, mut end) = tokio::sync::mpsc::channel::<()>(1);
        let running = leases.with_lease("a", async move |_lease| {
            started.send(()).unwrap();
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        let mut running: Pin<Box<_>> = Box::pin(running);
        tokio::select! {
            result = &mut running => panic!("{result:?}"),
            begun = has_started => begun.unwrap(),
        }
        drop(running);
        assert_eq!(soon("the work is dropped", end.recv()).await, None);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_the_lease_held() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    begin_and_drop(lease.run(std::future::pending::<()>())).await;
    assert!(lease.is_valid());
    assert!(document(&database, "a").await.is_some());
}

#[tokio::test]
async fn a_manager_can_be_built_after_dropped_attempts_at_it() {
    let database = Server::shared().database().await;
    begin_and_drop(builder(&database).ensure_indexes(true).build()).await;
    begin_and_drop(builder(&database).build()).await;
    let leases = builder(&database).ensure_indexes(true).build().await.unwrap();
    begin_and_drop(builder(&database).into_future()).await;
    let _lease: Lease = leases.acquire("a").await.unwrap();
}

#[tokio::test]
async fn a_dropped_guard_leaves_lease_held_and_transaction_abortable() {
    let (database, leases) = setup().await;
    let mut events = Listener::of(&leases);
    let lease = leases.acquire("a").ttl(Duration::from_secs(1)).await.unwrap();
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    // The driver aborts on the server only a transaction that it knows to have begun there.
    locks(&database).find_one(doc! {}).session(&mut session).await.unwrap();
    begin_and_drop(lease.guard(&mut session)).await;
    session.abort_transaction().await.unwrap();
    events.renewals("a", 1).await;
    assert!(lease.is_valid());
}
