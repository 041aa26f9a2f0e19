//! Dropped calls: every grant, earlier or later, is given back, and no task stays.

mod batched;

use std::future::{IntoFuture, poll_fn};
use std::task::Poll;

use mongo_lease::Lease;
use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::Server;

use crate::common::{builder, migrated};
use crate::patience::{PATIENCE, locks, until_nothing_is_left};

type PendingAcquire = <mongo_lease::Acquire as IntoFuture>::IntoFuture;

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

#[tokio::test]
async fn a_call_can_be_dropped_at_every_poll() {
    let database = migrated(Server::shared()).await;
    // No lease expires while a test lasts.
    let leases = builder(&database).ttl(4 * PATIENCE).build().await.unwrap();
    let mut granted = vec![0; 10];
    for call in 0..300 {
        // Some names are acquired again while their leases are being given back, and the call has to wait.
        let pending = leases.acquire(format!("lease:{}", call % 7)).into_future();
        let polls = call % 10;
        granted[polls as usize] += u32::from(poll_and_drop(pending, polls).await.is_some());
    }
    assert_eq!(granted[0], 0);
    assert!(granted[9] > 0, "all were dropped: {granted:?}");
    until_nothing_is_left(&database).await;
    // No task works for any of the calls.
    let report = leases.shutdown().await;
    assert_eq!((report.left_to_expire, report.tasks_left), (vec![], 0));
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}
