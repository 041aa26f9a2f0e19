//! Fencing by the lease in the caller's own transaction.

use std::time::Duration;

use mongo_lease::mongodb::ClientSession;
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::error::{Error as DriverError, TRANSIENT_TRANSACTION_ERROR};
use mongo_lease::{Attempt, Error, Lease, LeaseManager, LostReason};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinHandle;

use crate::blocked::{transaction, transaction_on};
use crate::common::{builder, document, setup};
use crate::damaged_releases::damage;
use crate::lent::{behind_a_proxy, lent_database};
use crate::patience::{bounded, locks, until_blocked, until_free};

#[tokio::test]
async fn a_guarded_transaction_commits_and_prolongs_the_lease() {
    let (database, leases) = setup().await;
    database.create_collection("work").await.unwrap();
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let before = document(&database, "a").await.unwrap();
    let mut session = transaction(&database).await;
    lease.guard(&mut session).await.unwrap();
    let work = database.collection::<Document>("work");
    work.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    assert_eq!(document(&database, "a").await.unwrap(), before, "nothing before the commit");
    // A call for the lease is answered, and does not wait for the transaction.
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
    session.commit_transaction().await.unwrap();

    let after = document(&database, "a").await.unwrap();
    assert!(after.get_datetime("expiresAt").unwrap() > before.get_datetime("expiresAt").unwrap());
    assert_eq!(work.count_documents(doc! {}).await.unwrap(), 1);
    lease.renew().await.unwrap();
    assert!(lease.is_valid());
}

/// A lease that has expired by the server's clock under an open guard, the transaction of that, and a take-over that
/// has been sent and waits for its end.
async fn take_over_of_a_guarded(
    server: &Server,
    database: &TestDatabase,
) -> (Lease, ClientSession, JoinHandle<mongo_lease::Result<Attempt>>) {
    let leases = builder(database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let lease = leases.acquire("a").renew(false).await.unwrap();
    // By its holder's clock it has not expired.
    let expired = doc! { "$set": { "expiresAt": DateTime::now() } };
    locks(database).update_one(doc! { "name": "a" }, expired).await.unwrap();
    let mut session = transaction(database).await;
    lease.guard(&mut session).await.unwrap();
    let others = builder(database).build().await.unwrap();
    until_free(&others, "a").await;
    let take_over = tokio::spawn(async move { others.try_acquire("a").await });
    until_blocked(server, database).await;
    assert!(!take_over.is_finished());
    (lease, session, take_over)
}

#[tokio::test]
async fn a_take_over_waits_for_the_commit_and_is_refused() {
    let (server, database) = lent_database().await;
    let (lease, mut session, take_over) = take_over_of_a_guarded(&server, &database).await;
    session.commit_transaction().await.unwrap();
    let Attempt::Busy(held) = take_over.await.unwrap().unwrap() else {
        panic!("it was taken over behind the commit");
    };
    assert_eq!(held.value.as_deref(), Some(lease.value()));
}

/// The negative control: without the commit the same take-over is granted.
#[tokio::test]
async fn a_take_over_waits_for_the_abort_and_is_granted() {
    let (server, database) = lent_database().await;
    let (_lease, mut session, take_over) = take_over_of_a_guarded(&server, &database).await;
    session.abort_transaction().await.unwrap();
    assert!(take_over.await.unwrap().unwrap().is_granted());
}

/// The error of a guard whose holder found itself valid, and that then takes so long on its way that somebody else is
/// granted the lease, and whether its transaction commits. The transaction may have read the lease first.
async fn guard_behind_a_take_over(reads_first: bool) -> (Error, bool) {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).max_clock_skew(Duration::ZERO).await.unwrap();
    let ttl = Duration::from_secs(4);
    let lease = leases.acquire("a").ttl(ttl).renew(false).await.unwrap();
    let mut session = transaction(&through).await;
    if reads_first {
        locks(&through).find_one(doc! { "name": "a" }).session(&mut session).await.unwrap();
    }
    let late = proxy.hold_requests_to("update");
    let guarding = tokio::spawn(async move {
        let error = lease.guard(&mut session).await.unwrap_err();
        (error, session)
    });
    bounded(late.held(1)).await;
    let others = builder(&database).build().await.unwrap();
    let next = others.acquire("a").await.unwrap();
    late.release();
    let (error, mut session) = guarding.await.unwrap();
    assert!(next.is_valid());
    (error, session.commit_transaction().await.is_ok())
}

#[tokio::test]
async fn a_guard_that_arrives_after_a_take_over_fails_as_lost() {
    let (error, _commits) = guard_behind_a_take_over(false).await;
    // By then its own clock has ended the lease as well: in either order, it is lost.
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
}

/// The transaction sees the lease as it was, the write meets a conflict, and the whole transaction is to be retried,
/// which ends in `Lost`.
#[tokio::test]
async fn a_guard_after_a_takeover_in_an_older_snapshot_conflicts() {
    let (error, commits) = guard_behind_a_take_over(true).await;
    let Error::MongoDb(source) = error else { panic!("{error:?}") };
    assert!(source.contains_label(TRANSIENT_TRANSACTION_ERROR), "{source:?}");
    assert!(!commits);
}

#[tokio::test]
async fn a_transaction_from_before_the_grant_is_refused_by_guard() {
    let (database, leases) = setup().await;
    let work = database.collection::<Document>("work");
    work.insert_one(doc! { "_id": 1 }).await.unwrap();
    let mut session = transaction(&database).await;
    // The read starts the transaction's snapshot.
    work.find_one(doc! {}).session(&mut session).await.unwrap();

    let lease = leases.acquire("a").await.unwrap();
    let refused = lease.guard(&mut session).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { option: "session", .. }), "{refused}");
    session.abort_transaction().await.unwrap();
    lease.check().unwrap();
    lease.renew().await.unwrap();
}

#[tokio::test]
async fn a_corrupt_expiry_is_neither_guarded_nor_renewed_but_reported() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let damaged = damage(&database, "a").await;
    let mut session = transaction(&database).await;
    let of_the_guard = lease.guard(&mut session).await.unwrap_err();
    session.abort_transaction().await.unwrap();
    for error in [of_the_guard, lease.renew().await.unwrap_err()] {
        let Error::Damaged { field: "expiresAt", found, .. } = error else { panic!("{error:?}") };
        assert_eq!(found, "string");
    }
    assert_eq!(document(&database, "a").await, Some(damaged), "it was mended by us");
    // The earlier grant is held until its time is over.
    assert!(lease.is_valid());
}

/// Books under the lease by the driver's helper. Returns how it ended, after how many tries, and how much is booked.
/// The transaction that conflicts with the first try is gone at the second.
async fn booked(
    database: &TestDatabase,
    lease: &Lease,
    mut conflict: Option<ClientSession>,
) -> (Result<(), DriverError>, u32, u64) {
    database.create_collection("work").await.unwrap();
    let work = database.collection::<Document>("work");
    let mut tries = 0;
    let mut session = database.client().start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session| {
        tries += 1;
        if tries == 2
            && let Some(other) = &mut conflict
        {
            other.abort_transaction().await?;
        }
        // This turns our error into the driver's.
        lease.guard(session).await?;
        work.insert_one(doc! { "by": lease.name() }).session(session).await?;
        Ok(())
    });
    let result = run.await;
    (result, tries, work.count_documents(doc! {}).await.unwrap())
}

#[tokio::test]
async fn the_drivers_helper_tries_again_what_was_a_conflict() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let blocker = transaction_on(&database, doc! { "name": "a" }).await;
    let (result, tries, count) = booked(&database, &lease, Some(blocker)).await;
    result.unwrap();
    assert_eq!((tries, count), (2, 1));
    assert!(lease.is_valid());
}

#[tokio::test]
async fn and_run2_stops_at_a_lost_lease_and_carries_the_reason() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    leases.release("a", lease.value()).await.unwrap();
    let (result, tries, count) = booked(&database, &lease, None).await;
    let error = result.unwrap_err();
    let Some(Error::Lost { reason, .. }) = error.get_custom::<Error>() else {
        panic!("{error:?}");
    };
    assert_eq!((reason, tries, count), (&LostReason::Removed, 1, 0));
}
