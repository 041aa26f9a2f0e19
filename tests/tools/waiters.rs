//! Calls that wait in the queue of a lease.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::Bson;
use mongo_lease::{Acquire, Event, Lease, LeaseManager, LeaseManagerBuilder, Result, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinHandle;

use crate::common::document;
use crate::patience::{Listener, PATIENCE, soon, until};

/// Long enough that only a wake-up can end it.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// The usual life of an entry.
pub(crate) const WAITER_TTL: Duration = Duration::from_secs(10);

/// The longest life of an entry: within a test none expires, and no heartbeat finds a promotion in place of an event.
pub(crate) const LONG_LIFE: Duration = Duration::from_secs(600);

/// A call that waits.
pub(crate) type Waiting = JoinHandle<Result<Lease>>;

/// A manager whose waiters wake only by events, and whose entries live for so long.
pub(crate) fn told_only(database: &Database, waiter_ttl: Duration) -> LeaseManagerBuilder {
    let tuning = Tuning::default().recheck_every(NEVER).waiter_ttl(waiter_ttl);
    let tuning = tuning.attempt_timeout(PATIENCE / 2);
    LeaseManager::builder(database).owner("test").tuning(tuning).wait(NEVER)
}

/// The same with a client of its own: a change stream takes a connection, and ten of them a whole pool.
pub(crate) async fn manager_with(
    server: &Server,
    database: &TestDatabase,
    waiter_ttl: Duration,
) -> LeaseManager {
    let through = database.through(&server.client().await);
    told_only(&through, waiter_ttl).build().await.unwrap()
}

/// The same with the usual life.
pub(crate) async fn manager(server: &Server, database: &TestDatabase) -> LeaseManager {
    manager_with(server, database, WAITER_TTL).await
}

/// How a call asks for the lease `a`.
pub(crate) type Ask = fn(&LeaseManager) -> Acquire;

pub(crate) fn writer(leases: &LeaseManager) -> Acquire {
    leases.acquire("a")
}

pub(crate) fn reader(leases: &LeaseManager) -> Acquire {
    leases.acquire("a").shared()
}

/// A call for so many permits under this limit.
pub(crate) fn permits(count: u32, limit: u32) -> impl Fn(&LeaseManager) -> Acquire {
    move |leases| leases.semaphore("a", limit).acquire().permits(count)
}

/// A call that waits in a task of its own, and is in the queue when this returns.
pub(crate) async fn in_line(leases: &LeaseManager, acquire: Acquire) -> Waiting {
    let mut events = Listener::of(leases);
    let waiting = tokio::spawn(acquire.into_future());
    queued(&mut events).await;
    waiting
}

/// The same, with a change stream that wakes it: it learns by events, and not by a first query.
pub(crate) async fn in_line_watching(leases: &LeaseManager, acquire: Acquire) -> Waiting {
    let mut events = Listener::of(leases);
    let waiting = in_line(leases, acquire).await;
    events.watching().await;
    waiting
}

/// Returns when a call of this manager is in a queue, with the number of waiters before it.
pub(crate) async fn queued(events: &mut Listener) -> u32 {
    let ahead = |event: &Event| match event {
        Event::Queued { ahead, .. } => Some(*ahead),
        _ => None,
    };
    events.find(ahead).await
}

/// A call that is in the local queue of its process when this returns, behind those that were begun before it.
pub(crate) fn start_waiting(acquire: Acquire) -> Waiting {
    let mut future = acquire.into_future();
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(future.as_mut().poll(&mut context), Poll::Pending), "it was too quick");
    tokio::spawn(future)
}

/// The lease that a waiting call is granted.
pub(crate) async fn granted(waiting: Waiting) -> Lease {
    soon("the waiter is granted the lease", waiting).await.unwrap().unwrap()
}

/// Drops a call that waits.
pub(crate) async fn dropped(waiting: Waiting) {
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
}

/// A call that is in the queue when this returns. No other call of this manager may be about to wait.
pub(crate) async fn queued_by(
    leases: &LeaseManager,
    options: impl FnOnce(&LeaseManager) -> Acquire,
) -> Waiting {
    in_line(leases, options(leases)).await
}

/// The leases of calls that are all granted now.
pub(crate) async fn all_granted(calls: impl IntoIterator<Item = Waiting>) -> Vec<Lease> {
    let mut leases = Vec::new();
    for call in calls {
        let lease = granted(call).await;
        assert!(lease.is_valid(), "{}", lease.name());
        leases.push(lease);
    }
    leases
}

/// The waiters in the queue, by the labels of their owners.
pub(crate) async fn line_of(database: &TestDatabase, name: &str) -> Vec<String> {
    let document = document(database, name).await.unwrap_or_default();
    let label = |entry: &Bson| {
        let owner = entry.as_document()?.get_str("owner").ok()?;
        Some(owner.split('@').next()?.to_owned())
    };
    let queue = document.get_array("queue").ok();
    queue.into_iter().flatten().map(|entry| label(entry).expect("an entry")).collect()
}

/// Returns when the queue has these waiters, in this order.
pub(crate) async fn until_line_is(database: &TestDatabase, name: &str, owners: &[&str]) {
    let what = format!("{owners:?} are in the queue");
    until(&what, async || (line_of(database, name).await == owners).then_some(())).await;
}
