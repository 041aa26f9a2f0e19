//! Managers and calls that leave while they wait.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinSet;

use super::{NEVER, by_hand, granted, in_line, manager, queued, start_waiting};
use crate::common::migrated;
use crate::patience::{Listener, locks, soon, until, until_nothing_is_left};

const NAMES: [&str; 3] = ["a", "b", "c"];
const WAITER_TTL: Duration = Duration::from_secs(10);

/// Three leases that are held, and a manager with four calls that wait for each of them.
struct Setup {
    database: TestDatabase,
    held: Vec<mongo_lease::Lease>,
    leases: LeaseManager,
    waiting: Vec<super::Waiting>,
}

async fn setup() -> Setup {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let leases = manager(server, &database).await;
    let mut events = Listener::of(&leases);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in NAMES {
        held.push(holder.acquire(name).await.unwrap());
        for _ in 0..4 {
            waiting.push(start_waiting(leases.acquire(name)));
        }
        queued(&mut events).await;
    }
    assert_eq!(queues(&database).await, 3);
    Setup { database, held, leases, waiting }
}

/// How many leases have waiters.
async fn queues(database: &TestDatabase) -> u64 {
    locks(database).count_documents(doc! { "queue": { "$exists": true } }).await.unwrap()
}

#[tokio::test]
async fn a_shutdown_leaves_every_queue_at_once() {
    let Setup { database, held, leases, waiting } = setup().await;
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.tasks_left), (0, 0));
    assert_eq!(queues(&database).await, 0);
    for waiting in waiting {
        let error = soon("the call ends", waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::ShutDown), "{error}");
    }
    for lease in held {
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
    }
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Also for calls that are not polled any more.
#[tokio::test]
async fn a_shutdown_leaves_the_queue_for_calls_that_stand_still() {
    let server = Server::shared();
    let database = migrated(server).await;
    let lease = manager(server, &database).await.acquire("a").await.unwrap();
    let leases = manager(server, &database).await;
    let mut events = Listener::of(&leases);
    let mut waiting = leases.acquire("a").into_future();
    tokio::select! {
        result = &mut waiting => panic!("{result:?}"),
        _ahead = queued(&mut events) => {}
    }
    assert_eq!(queues(&database).await, 1);
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(queues(&database).await, 0);
    assert!(matches!(waiting.await.unwrap_err(), Error::ShutDown));
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_manager_that_is_dropped_with_its_calls_leaves_every_queue() {
    let Setup { database, held, leases, waiting } = setup().await;
    drop(leases);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    until("the queues are left", async || (queues(&database).await == 0).then_some(())).await;
    for lease in held {
        lease.release().await.unwrap();
    }
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// A call keeps what it needs of its manager.
#[tokio::test]
async fn a_call_waits_on_when_its_manager_is_dropped() {
    let Setup { database, held, leases, waiting } = setup().await;
    drop(leases);
    for lease in held {
        lease.release().await.unwrap();
    }
    for waiting in waiting {
        granted(waiting).await.release().await.unwrap();
    }
    until_nothing_is_left(&database).await;
}

/// A holder that shuts down hands off.
#[tokio::test]
async fn a_shutdown_of_the_holder_hands_on_to_those_who_wait() {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let leases = manager(server, &database).await;
    let _held = [holder.acquire("a").await.unwrap(), holder.acquire("b").await.unwrap()];
    let waiting = in_line(&leases, leases.acquire("a")).await;
    assert_eq!(holder.shutdown().await.released, 2);
    let lease = granted(waiting).await;
    assert!(lease.is_valid());
    lease.release().await.unwrap();
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Calls of three managers that are dropped at random points, in the queue and before and after it. For the run by
/// hand: 10,000.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_dropped_at_random_points_leave_no_entry_behind() {
    let drops = by_hand("MONGO_LEASE_DROPPED_WAITS", 300);
    // A free document whose hand-off found no waiter stays until the server removes it.
    let server = Server::builder().ttl_monitor_sleep_secs(1).start();
    let database = migrated(&server).await;
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&server, &database).await);
    }
    let mut calls = JoinSet::new();
    let mut granted = 0;
    for number in 0..drops {
        let asking = managers[number % 3].acquire(NAMES[number % 7 % 3]).wait(NEVER).into_future();
        // Each at another time; a few hold the lease for a moment.
        let time = Duration::from_micros((number * 7_919 % 100_000) as u64);
        calls.spawn(async move {
            let granted = tokio::time::timeout(time, asking).await;
            let is_granted = granted.is_ok();
            if number % 5 == 0 {
                tokio::task::yield_now().await;
            }
            drop(granted.map(Result::unwrap));
            is_granted
        });
        while calls.len() > 24 {
            granted += usize::from(calls.join_next().await.unwrap().unwrap());
        }
    }
    granted += calls.join_all().await.into_iter().map(usize::from).sum::<usize>();
    let started = Instant::now();
    until("nobody stands in line", async || (queues(&database).await == 0).then_some(())).await;
    let gone = started.elapsed();
    eprintln!(
        "{granted} of {drops} were granted; the last entry went {gone:?} after the last drop"
    );
    assert!(granted > 0, "all were dropped");
    assert!(granted < drops, "nothing was dropped");
    assert!(gone < WAITER_TTL, "{gone:?}");
    for name in NAMES {
        let free = async || managers[0].get(name).await.unwrap().is_none().then_some(());
        until("it is free", free).await;
    }
    until_nothing_is_left(&database).await;
    for leases in managers {
        let report = leases.shutdown().await;
        assert_eq!((report.released, report.tasks_left), (0, 0));
    }
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}
