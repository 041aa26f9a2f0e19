//! Another write to the lease's document between the transaction's snapshot and its guard.

use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Error, Lease};

use super::{count, held, make_it_guard_first, work_of, written};
use crate::blocked::transaction_on;
use crate::common::{builder, document};
use crate::damaged_releases::damage;
use crate::lent::lent_database;
use crate::patience::{bounded, locks, until_blocked, until_free};

/// A write that changes nothing for the holder, as a waiter's heartbeat.
async fn touch(database: &Database) {
    let touch = doc! { "$inc": { "touched": 1 } };
    locks(database).update_one(doc! { "name": "a" }, touch).await.unwrap();
}

fn assert_conflict(error: &Error) {
    assert!(matches!(error, Error::MongoDb(_)) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn after_a_conflict_the_next_transaction_guards_first() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let work = work_of(&database).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();

    let tx = written(&lease, &work).await.unwrap();
    touch(&database).await;
    assert_conflict(&tx.commit().await.unwrap_err());
    lease.check().unwrap();
    assert_eq!(count(&work).await, 0);

    // The same write waits now, for as long as a transaction is open: until one has committed, also where it was given
    // up.
    for commits in [false, false, true] {
        let tx = written(&lease, &work).await.unwrap();
        let same = database.clone();
        let waits = tokio::spawn(async move { touch(&same).await });
        until_blocked(&server, &database).await;
        assert!(!waits.is_finished());
        match commits {
            true => tx.commit().await.unwrap(),
            false => drop(tx),
        }
        bounded(waits).await.unwrap();
        assert_eq!(count(&work).await, u64::from(commits));
    }

    // And the next one guards last again: nobody waits for it.
    let tx = written(&lease, &work).await.unwrap();
    touch(&database).await;
    assert_conflict(&tx.commit().await.unwrap_err());
}

/// Nothing of the caller's is lost by that, so it is not told.
#[tokio::test]
async fn a_guard_that_is_first_waits_for_another_transaction() {
    let (database, _leases, work, lease) = held().await;
    let tx = written(&lease, &work).await.unwrap();
    touch(&database).await;
    assert_conflict(&tx.commit().await.unwrap_err());

    let mut blocker = transaction_on(&database, doc! { "name": "a" }).await;
    let waiting = tokio::spawn(async move {
        let tx = written(&lease, &work).await?;
        tx.commit().await?;
        Ok::<_, Error>((lease, count(&work).await))
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    blocker.abort_transaction().await.unwrap();
    let (lease, count) = bounded(waiting).await.unwrap().unwrap();
    assert_eq!(count, 1);
    assert!(lease.is_valid());
}

/// Whether a take-over is granted that was sent while the transaction had guarded, and waits for its end. By the
/// server's clock the lease has expired, and by its holder's it has not.
async fn take_over_is_granted(commits: bool) -> bool {
    let (server, database) = lent_database().await;
    let work = work_of(&database).await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let lease = leases.acquire("a").renew(false).await.unwrap();
    make_it_guard_first(&lease, &database).await;
    let expired = doc! { "$set": { "expiresAt": DateTime::now() } };
    locks(&database).update_one(doc! { "name": "a" }, expired).await.unwrap();
    let tx = written(&lease, &work).await.unwrap();
    let others = builder(&database).build().await.unwrap();
    until_free(&others, "a").await;
    let take_over = tokio::spawn(async move { others.try_acquire("a").await });
    until_blocked(&server, &database).await;
    assert!(!take_over.is_finished());
    match commits {
        true => tx.commit().await.unwrap(),
        false => drop(tx),
    }
    let attempt = bounded(take_over).await.unwrap().unwrap();
    assert_eq!(count(&work).await, u64::from(commits));
    attempt.is_granted()
}

#[tokio::test]
async fn a_take_over_waits_for_the_commit_and_is_refused() {
    assert!(!take_over_is_granted(true).await, "it was taken over behind the commit");
}

/// The negative control: without the commit the same take-over is granted.
#[tokio::test]
async fn a_take_over_waits_for_the_abort_and_is_granted() {
    assert!(take_over_is_granted(false).await);
}

async fn taken_over(lease: &Lease, leases: &mongo_lease::LeaseManager) -> Lease {
    leases.release("a", lease.value()).await.unwrap();
    leases.acquire("a").await.unwrap()
}

#[tokio::test]
async fn after_a_take_over_it_is_lost_and_not_committed() {
    let (_database, leases, work, lease) = held().await;
    let tx = written(&lease, &work).await.unwrap();
    let next = taken_over(&lease, &leases).await;
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }) && !error.is_transient(), "{error}");
    let error = lease.transaction().await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert_eq!(count(&work).await, 0);
    assert!(next.is_valid());
}

/// Its holder does not know of its loss: the server says so, in the first operation or in the last.
#[tokio::test]
async fn a_take_over_before_it_began_is_found_by_its_guard() {
    for guards_first in [false, true] {
        let (database, leases, work, lease) = held().await;
        if guards_first {
            let tx = written(&lease, &work).await.unwrap();
            touch(&database).await;
            assert_conflict(&tx.commit().await.unwrap_err());
        }
        let next = taken_over(&lease, &leases).await;
        assert!(lease.is_valid(), "it does not know yet");
        let error = match written(&lease, &work).await {
            Ok(tx) => tx.commit().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        assert_eq!(count(&work).await, 0);
        assert!(next.is_valid());
    }
}

#[tokio::test]
async fn of_a_damaged_document_a_guard_and_a_renewal_report_it() {
    let (database, _leases, work, lease) = held().await;
    let damaged = damage(&database, "a").await;
    let tx = written(&lease, &work).await.unwrap();
    for error in [tx.commit().await.unwrap_err(), lease.renew().await.unwrap_err()] {
        let Error::Damaged { field: "expiresAt", found, .. } = error else { panic!("{error:?}") };
        assert_eq!(found, "string");
    }
    assert_eq!(document(&database, "a").await, Some(damaged), "it was mended by us");
    assert_eq!(count(&work).await, 0);
    // The earlier grant is held until its time is over.
    assert!(lease.is_valid());
}
