//! Dropped calls: every grant, earlier or later, is given back, and no task stays.

use std::future::{IntoFuture, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Lease, LeaseManager, Tuning};
use mongo_lease_testbed::{FailCommand, Proxy, TestDatabase};
use tokio::task::JoinSet;

use crate::common::{SHORT_TTL, builder, setup};
use crate::lent::{lent_database, lent_setup};
use crate::patience::{BUSY_MACHINE, PATIENCE, locks, until_nothing_is_left};

type PendingAcquire = <mongo_lease::Acquire as IntoFuture>::IntoFuture;

/// How many calls are dropped. For the run by hand: 10,000.
fn calls() -> u32 {
    let by_hand = std::env::var("MONGO_LEASE_DROPS").ok();
    by_hand.and_then(|calls| calls.parse().ok()).unwrap_or(300)
}

/// Polls that many times, whenever something has happened, and drops a call that has not ended by then.
async fn poll_and_drop(mut pending: PendingAcquire, polls: u32) -> Option<Lease> {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match pending.as_mut().poll(context) {
            Poll::Ready(granted) => Poll::Ready(Some(granted.expect("a grant, sooner or later"))),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// After the last call: nothing is held, and no task works for any of them.
async fn assert_nothing_is_left(database: &TestDatabase, leases: &LeaseManager) {
    let started = Instant::now();
    until_nothing_is_left(database).await;
    let gone = started.elapsed();
    let report = leases.shutdown().await;
    eprintln!("all given back {gone:?} after the last, {report:?} {:?} later", started.elapsed());
    assert!(gone < 2 * BUSY_MACHINE, "{gone:?}");
    assert_eq!((report.released, report.tasks_left), (0, 0));
    assert_eq!(locks(database).count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn a_call_can_be_dropped_at_every_poll() {
    let (database, leases) = setup().await;
    let mut granted = vec![0; 10];
    for call in 0..calls() {
        // Some names are acquired again while their leases are being given back, and the call has to wait.
        let pending = leases.acquire(format!("lease:{}", call % 7)).into_future();
        let polls = call % 10;
        granted[polls as usize] += u32::from(poll_and_drop(pending, polls).await.is_some());
    }
    eprintln!("granted within 0, 1, … polls: {granted:?} of {} each", calls() / 10);
    assert_eq!(granted[0], 0);
    assert!(granted[9] > 0, "all were dropped");
    assert_nothing_is_left(&database, &leases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_can_be_dropped_by_timeout() {
    let (database, leases) = setup().await;
    drop_by_timeout(&leases, Duration::from_millis(20)).await;
    assert_nothing_is_left(&database, &leases).await;
}

/// Each call has its own time, up to `longest`; a few have as much as they need.
async fn drop_by_timeout(leases: &LeaseManager, longest: Duration) {
    let mut calls = JoinSet::new();
    let mut granted = 0;
    for number in 0..self::calls() {
        let pending = leases.acquire(format!("lease:{}", number % 97)).into_future();
        let time = match number * 37 % 101 {
            95.. => PATIENCE,
            percent => longest * percent / 95,
        };
        calls.spawn(async move { tokio::time::timeout(time, pending).await.is_ok() });
        while calls.len() > 12 {
            granted += u32::from(calls.join_next().await.unwrap().unwrap());
        }
    }
    granted += calls.join_all().await.into_iter().map(u32::from).sum::<u32>();
    eprintln!("{granted} of {} were granted in time", self::calls());
    assert!(granted > 0, "all were dropped");
    assert!(granted < self::calls(), "nothing was dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_can_be_dropped_while_the_server_is_slow() {
    let (server, database, leases) = lent_setup().await;
    let slow = FailCommand::on(&["findAndModify"]).block_for(Duration::from_millis(50));
    let slow = slow.enable(server.uri()).await;
    drop_by_timeout(&leases, Duration::from_millis(200)).await;
    assert!(slow.disable().await > 0);
    assert_nothing_is_left(&database, &leases).await;
}

/// The request is on its way when its caller goes, and reaches the server much later.
#[tokio::test]
async fn a_grant_long_after_its_call_was_dropped_is_given_back() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = LeaseManager::builder(&database.through(&proxy.client().await)).await.unwrap();
    let before = server.command_counts().await;
    let late = proxy.hold_requests_to("findAndModify");
    let pending = leases.acquire("a");
    let pending = tokio::spawn(async move { pending.await.map(drop) });
    late.held(1).await;
    pending.abort();
    assert!(pending.await.unwrap_err().is_cancelled());
    late.release();
    assert_nothing_is_left(&database, &leases).await;
    let sent = server.command_counts().await.since(&before);
    assert!(sent.delete >= 1, "it was granted, and given back");
}

/// The grant happens, and its reply is lost also for the task that waits in place of the caller.
#[tokio::test]
async fn a_grant_with_a_lost_reply_and_a_dropped_call_is_given_back() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = LeaseManager::builder(&database.through(&proxy.client().await)).await.unwrap();
    let held = proxy.hold_replies_to("findAndModify");
    let pending = leases.acquire("a");
    let pending = tokio::spawn(async move { pending.await.map(drop) });
    held.held(1).await;
    assert!(leases.get("a").await.unwrap().is_some());
    pending.abort();
    proxy.cut();
    held.release();
    assert_nothing_is_left(&database, &leases).await;
}

/// A waiting call that is dropped leaves the holder as it is.
#[tokio::test]
async fn a_dropped_wait_takes_nothing_from_the_holder() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    // Whatever wakes it comes soon: an attempt of its own, and a heartbeat.
    let others = builder(&database)
        .tuning(Tuning::default().recheck_every(SHORT_TTL).waiter_ttl(3 * SHORT_TTL));
    let others = others.build().await.unwrap();
    for polls in 0..8 {
        let waiting = others.acquire("a").into_future();
        assert!(poll_and_drop(waiting, polls).await.is_none());
    }
    assert_eq!(others.shutdown().await.tasks_left, 0);
    lease.renew().await.unwrap();
    drop(lease);
    assert_nothing_is_left(&database, &leases).await;
}
