//! Dropped calls: every grant, earlier or later, is given back, and no task stays.

use std::future::{IntoFuture, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::{FailCommand, TestDatabase};
use tokio::task::JoinSet;

use crate::common::setup;
use crate::lent::lent_setup;
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

/// Each call has its own time, up to 200 ms; a few have as much as they need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_can_be_dropped_while_the_server_is_slow() {
    let (server, database, leases) = lent_setup().await;
    let slow = FailCommand::on(&["findAndModify"]).block_for(Duration::from_millis(50));
    let slow = slow.enable(server.uri()).await;
    let mut pending = JoinSet::new();
    let mut granted = 0;
    for number in 0..calls() {
        let call = leases.acquire(format!("lease:{}", number % 97)).into_future();
        let time = match number * 37 % 101 {
            95.. => PATIENCE,
            percent => Duration::from_millis(200) * percent / 95,
        };
        pending.spawn(async move { tokio::time::timeout(time, call).await.is_ok() });
        while pending.len() > 12 {
            granted += u32::from(pending.join_next().await.unwrap().unwrap());
        }
    }
    granted += pending.join_all().await.into_iter().map(u32::from).sum::<u32>();
    eprintln!("{granted} of {} were granted in time", calls());
    assert!(granted > 0, "all were dropped");
    assert!(granted < calls(), "nothing was dropped");
    assert!(slow.disable().await > 0);
    assert_nothing_is_left(&database, &leases).await;
}
