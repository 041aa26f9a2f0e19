//! Managers and calls that leave while they wait.

use mongo_lease::Error;
use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::TestDatabase;

use super::{Held, WAITER_TTL, all_granted, queued, start_waiting};
use crate::patience::{Listener, locks, until, until_nothing_is_left};

/// How many leases have waiters.
async fn queues(database: &TestDatabase) -> u64 {
    locks(database).count_documents(doc! { "queue": { "$exists": true } }).await.unwrap()
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
            let left = async || (queues(&database).await == 0).then_some(());
            until("both have left the queue", left).await;
            lease.release().await.unwrap();
        } else {
            lease.release().await.unwrap();
            all_granted(waiting).await;
        }
        until_nothing_is_left(&database).await;
    }
}
