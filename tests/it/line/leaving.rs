//! Managers and calls that leave while they wait.

use std::time::{Duration, Instant};

use mongo_lease::Error;
use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinSet;

use super::{Held, NEVER, WAITER_TTL, all_granted, manager, queued, start_waiting};
use crate::common::migrated;
use crate::patience::{Listener, locks, until, until_free, until_nothing_is_left};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How many leases have waiters.
async fn queues(database: &TestDatabase) -> u64 {
    locks(database).count_documents(doc! { "queue": { "$exists": true } }).await.unwrap()
}

async fn until_nobody_is_in_line(database: &TestDatabase) {
    until("nobody is in line", async || (queues(database).await == 0).then_some(())).await;
}

/// Also for calls that are not polled any more.
#[tokio::test]
async fn a_shutdown_leaves_the_queue_for_calls_that_stand_still() {
    let Held { database, lease, leases, .. } = Held::new(WAITER_TTL).await;
    let mut events = Listener::of(&leases);
    let mut waiting = leases.acquire("a").into_future();
    tokio::select! {
        result = &mut waiting => panic!("{result:?}"),
        _ahead = queued(&mut events) => {}
    }
    assert_eq!(queues(&database).await, 1);
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.tasks_left), (0, 0));
    assert_eq!(queues(&database).await, 0);
    assert!(matches!(waiting.await.unwrap_err(), Error::ShutDown));
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// A call keeps what it needs of its manager: it waits on, and leaves the queue when it is dropped.
#[tokio::test]
async fn calls_wait_on_and_leave_when_their_manager_is_dropped() {
    for are_dropped in [false, true] {
        let Held { database, lease, leases, .. } = Held::new(WAITER_TTL).await;
        let mut events = Listener::of(&leases);
        let waiting = [start_waiting(leases.acquire("a")), start_waiting(leases.acquire("a"))];
        queued(&mut events).await;
        drop((leases, events));
        if are_dropped {
            waiting.iter().for_each(tokio::task::JoinHandle::abort);
            until_nobody_is_in_line(&database).await;
            lease.release().await.unwrap();
        } else {
            lease.release().await.unwrap();
            all_granted(waiting).await;
        }
        until_nothing_is_left(&database).await;
    }
}

/// Calls of three managers that are dropped at random points, in the queue and before and after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_dropped_at_random_points_leave_no_entry_behind() {
    const DROPS: usize = 300;
    // A free document whose hand-off found no waiter stays until the server removes it.
    let server = Server::builder().ttl_monitor_sleep_secs(1).start();
    let database = migrated(&server).await;
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&server, &database).await);
    }
    let mut calls = JoinSet::new();
    let mut granted = 0;
    for number in 0..DROPS {
        let asking = managers[number % 3].acquire(NAMES[number % 7 % 3]).wait(NEVER).into_future();
        // Each at another time; a few hold the lease for a moment.
        let time = Duration::from_micros((number * 7_919 % 100_000) as u64);
        calls.spawn(async move {
            let granted = tokio::time::timeout(time, asking).await;
            if number % 5 == 0 {
                tokio::task::yield_now().await;
            }
            granted.map(Result::unwrap).is_ok()
        });
        while calls.len() > 24 {
            granted += usize::from(calls.join_next().await.unwrap().unwrap());
        }
    }
    granted += calls.join_all().await.into_iter().map(usize::from).sum::<usize>();
    assert!(granted > 0, "all were dropped");
    assert!(granted < DROPS, "nothing was dropped");
    let started = Instant::now();
    until_nobody_is_in_line(&database).await;
    assert!(started.elapsed() < WAITER_TTL, "{:?}", started.elapsed());
    for name in NAMES {
        until_free(&managers[0], name).await;
    }
    until_nothing_is_left(&database).await;
    for leases in managers {
        let report = leases.shutdown().await;
        assert_eq!((report.released, report.tasks_left), (0, 0));
    }
}
