//! Futures that are dropped: all of a transaction is done, or nothing, and nothing blocks the lease.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Error, Lease, Result};
use mongo_lease_testbed::Server;

use super::{count, held, make_it_guard_first};
use crate::patience::soon;

/// Polls that many times, whenever something has happened, and drops a future that has not ended by then.
async fn poll_and_drop<T>(future: impl Future<Output = T>, polls: u32) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A change of one document in two steps, of which nobody may see one alone.
async fn transfer(lease: &Lease, work: &Collection<Document>) -> Result<()> {
    let mut tx = lease.transaction().await?;
    for _ in 0..2 {
        let step = doc! { "$inc": { "steps": 1 } };
        work.update_one(doc! { "_id": "account" }, step).session(&mut tx).await?;
    }
    tx.commit().await
}

/// Transfers with a guard that is last or first. Each is polled once more than the one before, until three have ended.
async fn drop_at_every_poll(guards_first: bool) {
    let (database, leases, work, lease) = held().await;
    work.insert_one(doc! { "_id": "account", "steps": 0 }).await.unwrap();
    // A transaction that is left open would end with the next one in its session. This client has sessions of its own.
    let other = super::work(&database.through(&Server::shared().client().await));
    let (mut ended, mut polls) = (0, 0);
    let mut committed = -1;
    while ended < 3 {
        // It does so until one has committed.
        let steps = work.find_one(doc! {}).await.unwrap().unwrap().get_i32("steps").unwrap();
        if guards_first && committed != steps {
            make_it_guard_first(&lease, &database).await;
        }
        committed = steps;
        let result = poll_and_drop(transfer(&lease, &work), polls).await;
        // These wait for what is left of it, and no longer than an abort takes: a transaction that was left open would
        // block them for 300 s.
        let next = doc! { "$inc": { "nexts": 1 } };
        let account = other.find_one_and_update(doc! { "_id": "account" }, next);
        let account = soon("the next write", account.into_future()).await.unwrap().unwrap();
        lease.renew().await.unwrap();
        match result {
            Some(result) => {
                result.unwrap();
                ended += 1;
            }
            None => polls += 1,
        }
        assert_eq!(account.get_i32("steps").unwrap() % 2, 0, "half of it after {polls} polls");
    }
    assert!(polls > 4, "it was dropped at {polls} polls alone");
    let account = work.find_one(doc! {}).await.unwrap().unwrap();
    assert!(account.get_i32("steps").unwrap() >= 6);
    assert!(lease.is_valid());
    lease.release().await.unwrap();
    let report = leases.shutdown().await;
    assert_eq!((report.left_to_expire.len(), report.tasks_left), (0, 0));
}

#[tokio::test]
async fn dropped_at_every_poll_it_is_all_or_nothing() {
    drop_at_every_poll(false).await;
}

#[tokio::test]
async fn dropped_at_every_poll_with_the_guard_first_as_well() {
    drop_at_every_poll(true).await;
}

#[tokio::test]
async fn a_session_of_the_callers_can_be_used_after_a_drop() {
    let (database, _leases, work, lease) = held().await;
    let mut session = database.client().start_session().await.unwrap();
    // Otherwise it begins at once, and sends nothing. None of these commits.
    make_it_guard_first(&lease, &database).await;
    for polls in 0..12 {
        let begun = poll_and_drop(lease.transaction_in(&mut session), polls).await;
        drop(begun);
        work.insert_one(doc! { "_id": polls }).session(&mut session).await.unwrap();
        session.start_transaction().await.unwrap();
        session.abort_transaction().await.unwrap();
    }
    lease.renew().await.unwrap();
    assert_eq!(count(&work).await, 12);
}

/// A loss is known before the guard is sent, which would tell the driver that the transaction has begun. Or its user
/// has aborted it, of which the driver has told nobody.
#[tokio::test]
async fn a_first_operation_that_was_dropped_stays_open_after_no_end() {
    let (database, leases, work, _) = held().await;
    work.insert_one(doc! { "_id": "account", "steps": 0 }).await.unwrap();
    let other = super::work(&database.through(&Server::shared().client().await));
    let mut polls = 0;
    loop {
        polls += 1;
        let mut was_dropped = false;
        for end in ["lost", "aborted", "aborted and dropped"] {
            let lease = leases.acquire(format!("{end} {polls}")).renew(false).await.unwrap();
            let mut tx = lease.transaction().await.unwrap();
            let step = doc! { "$inc": { "steps": 1 } };
            let step = work.update_one(doc! { "_id": "account" }, step).session(&mut tx);
            was_dropped |= poll_and_drop(step.into_future(), polls).await.is_none();
            match end {
                "lost" => {
                    leases.release(lease.name(), lease.value()).await.unwrap();
                    lease.renew().await.unwrap_err();
                    assert!(matches!(tx.commit().await, Err(Error::Lost { .. })));
                }
                "aborted" => {
                    tx.session().abort_transaction().await.unwrap();
                    assert!(matches!(tx.commit().await, Err(Error::InvalidOption { .. })));
                }
                _ => {
                    tx.session().abort_transaction().await.unwrap();
                    drop(tx);
                }
            }
            let next = other.update_one(doc! {}, doc! { "$inc": { "nexts": 1 } }).into_future();
            soon(&format!("the next write: {end}"), next).await.unwrap();
        }
        if !was_dropped {
            break;
        }
    }
    assert_eq!(work.find_one(doc! {}).await.unwrap().unwrap().get_i32("steps").unwrap(), 0);
}
