//! Waiting in the queue: order, hand-off, costs, and cleanup after calls that have gone.

mod barging;
mod beats;
mod cost;
mod crossing;
mod damaged;
mod dead;
mod handoffs;
mod leaving;
mod order;
mod terms;
mod turns;
mod unpolled;
mod workers;

use std::future::IntoFuture;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, Document};
use mongo_lease::{Acquire, Event, Lease, LeaseManager, LeaseManagerBuilder, Result, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinHandle;

use crate::common::document;
use crate::patience::{Listener, soon, until};

/// Long enough that only a wake-up can end it.
const NEVER: Duration = Duration::from_secs(3_600);

type Waiting = JoinHandle<Result<Lease>>;

/// No waiter looks by itself.
fn told_only_tuning() -> Tuning {
    Tuning::default().recheck_every(NEVER)
}

/// A manager whose waiters wake only by events.
fn told_only(database: &Database) -> LeaseManagerBuilder {
    LeaseManager::builder(database).owner("test").tuning(told_only_tuning()).wait(NEVER)
}

/// A manager with a client of its own: a change stream takes a connection, and ten of them a whole pool.
async fn manager(server: &Server, database: &TestDatabase) -> LeaseManager {
    told_only(&database.through(&server.client().await)).build().await.unwrap()
}

/// A call that waits in a task of its own, and is in the queue when this returns.
async fn in_line(leases: &LeaseManager, acquire: Acquire) -> Waiting {
    let mut events = Listener::of(leases);
    let waiting = tokio::spawn(acquire.into_future());
    queued(&mut events).await;
    waiting
}

/// The same, with a change stream that wakes it: it learns by events, and not by a first query.
async fn in_line_watching(leases: &LeaseManager, acquire: Acquire) -> Waiting {
    let mut events = Listener::of(leases);
    let waiting = in_line(leases, acquire).await;
    events.watching().await;
    waiting
}

/// Returns when a call of this manager is in a queue, with the number of waiters before it.
async fn queued(events: &mut Listener) -> u32 {
    let ahead = |event: &Event| match event {
        Event::Queued { ahead, .. } => Some(*ahead),
        _ => None,
    };
    events.find(ahead).await
}

/// A call that is in the local queue of its process when this returns, behind those that were begun before it.
fn start_waiting(acquire: Acquire) -> Waiting {
    let mut future = acquire.into_future();
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(future.as_mut().poll(&mut context), Poll::Pending), "it was too quick");
    tokio::spawn(future)
}

/// The lease that a waiting call is granted.
async fn granted(waiting: Waiting) -> Lease {
    soon("the waiter is granted the lease", waiting).await.unwrap().unwrap()
}

/// Drops a call that waits.
async fn dropped(waiting: Waiting) {
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
}

/// The waiters in the queue, by the labels of their owners.
async fn line_of(database: &TestDatabase, name: &str) -> Vec<String> {
    let document = document(database, name).await.unwrap_or_default();
    let label = |entry: &Bson| {
        let owner = entry.as_document()?.get_str("owner").ok()?;
        Some(owner.split('@').next()?.to_owned())
    };
    let queue = document.get_array("queue").ok();
    queue.into_iter().flatten().map(|entry| label(entry).expect("an entry")).collect()
}

/// Returns when the queue has these waiters, in this order.
async fn until_line_is(database: &TestDatabase, name: &str, owners: &[&str]) {
    let what = format!("{owners:?} stand in line");
    until(&what, async || (line_of(database, name).await == owners).then_some(())).await;
}

/// The document's holder, by the label of its owner.
fn holder_of(document: &Document) -> Option<&str> {
    document.get_document("grant").ok()?.get_str("owner").ok()?.split('@').next()
}

/// A number for a run by hand.
fn by_hand(variable: &str, usually: usize) -> usize {
    let by_hand = std::env::var(variable).ok();
    by_hand.map_or(usually, |number| number.parse().expect("a number"))
}
