//! Transactions under a lease: none commits after the lease was lost.

mod conflicts;
mod drops;
mod ends;
mod refused;
mod sessions;
mod unknown;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Collection, Database};
use mongo_lease::{Lease, LeaseManager, Result, Transaction};
use mongo_lease_testbed::TestDatabase;

use crate::blocked::transaction;
use crate::common::{document, setup};

/// The documents that transactions write. The collection exists: to make it within a transaction takes a lock.
pub(crate) async fn work_of(database: &TestDatabase) -> Collection<Document> {
    database.create_collection("work").await.unwrap();
    database.collection("work")
}

pub(crate) fn work(database: &Database) -> Collection<Document> {
    database.collection("work")
}

pub(crate) async fn count(work: &Collection<Document>) -> u64 {
    work.count_documents(doc! {}).await.unwrap()
}

/// One document, in a transaction that is not committed yet.
pub(crate) async fn written<'a>(
    lease: &'a Lease,
    work: &Collection<Document>,
) -> Result<Transaction<'a>> {
    let mut tx = lease.transaction().await?;
    assert!(format!("{tx:?}").contains(&format!("{:?}", lease.name())), "{tx:?}");
    work.insert_one(doc! { "by": lease.name() }).session(&mut tx).await?;
    Ok(tx)
}

/// A database with the collection, a manager, and its lease `a`, which renews itself never.
async fn held() -> (TestDatabase, LeaseManager, Collection<Document>, Lease) {
    let (database, leases) = setup().await;
    let work = work_of(&database).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    (database, leases, work, lease)
}

/// Makes the lease's next transaction guard first, unless it does so already.
pub(crate) async fn make_it_guard_first(lease: &Lease, database: &Database) {
    let mut tx = lease.transaction().await.unwrap();
    // It sees the lease's document as it is now.
    work(database).find_one(doc! {}).session(&mut tx).await.unwrap();
    let touch = doc! {
        "update": "locks",
        "updates": [{ "q": { "name": lease.name() }, "u": { "$inc": { "touched": 1 } } }],
        // A transaction that guards first makes it wait for longer.
        "maxTimeMS": 500,
    };
    if database.run_command(touch).await.is_ok() {
        tx.commit().await.unwrap_err();
    }
}

#[tokio::test]
async fn a_transaction_commits_and_prolongs_the_lease() {
    let (database, leases, work, lease) = held().await;
    let before = document(&database, "a").await.unwrap();
    let valid_until = lease.expires_at();
    let tx = written(&lease, &work).await.unwrap();
    assert_eq!(document(&database, "a").await.unwrap(), before, "nothing before the commit");
    assert_eq!(count(&work).await, 0);
    // A call for the lease is answered, and does not wait for the transaction.
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
    tx.commit().await.unwrap();

    let after = document(&database, "a").await.unwrap();
    assert!(after.get_datetime("expiresAt").unwrap() > before.get_datetime("expiresAt").unwrap());
    assert_eq!(count(&work).await, 1);
    // Its holder counts the guard as a renewal.
    assert!(lease.expires_at() > valid_until);
    lease.renew().await.unwrap();
    assert!(lease.is_valid());
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    let (_database, _leases, work, lease) = held().await;
    drop(written(&lease, &work).await.unwrap());
    lease.renew().await.unwrap();
    written(&lease, &work).await.unwrap().commit().await.unwrap();
    assert_eq!(count(&work).await, 1);
}

/// As a service does it: in a task of its own, and through a function of its own.
#[tokio::test]
async fn a_transaction_goes_through_tasks_and_functions() {
    async fn store(tx: &mut Transaction<'_>, work: &Collection<Document>) -> Result<()> {
        work.insert_one(doc! { "_id": 1 }).session(&mut *tx).await?;
        work.update_one(doc! { "_id": 1 }, doc! { "$set": { "b": 2 } }).session(tx).await?;
        Ok(())
    }
    let (_database, _leases, work, lease) = held().await;
    let stored = work.clone();
    let task = tokio::spawn(async move {
        let mut tx = lease.transaction().await?;
        store(&mut tx, &stored).await?;
        let mut all = stored.find(doc! {}).session(tx.session()).await?;
        let mut seen = 0;
        while all.next(tx.session()).await.transpose()?.is_some() {
            seen += 1;
        }
        tx.commit().await?;
        Ok::<_, mongo_lease::Error>((seen, lease))
    });
    let (seen, lease) = task.await.unwrap().unwrap();
    assert_eq!((seen, count(&work).await), (1, 1));
    assert!(lease.is_valid());
}

/// A dropped future of the driver's, and an operation that failed, end in nothing.
#[tokio::test]
async fn an_operation_that_fails_ends_in_nothing() {
    let (_database, _leases, work, lease) = held().await;
    work.insert_one(doc! { "_id": 1 }).await.unwrap();
    let mut tx = lease.transaction().await.unwrap();
    work.insert_one(doc! { "_id": 2 }).session(&mut tx).await.unwrap();
    work.insert_one(doc! { "_id": 1 }).session(&mut tx).await.unwrap_err();
    let error = tx.commit().await.unwrap_err();
    // The server has aborted it already.
    assert!(error.is_transient(), "{error}");
    assert_eq!(count(&work).await, 1);
    lease.renew().await.unwrap();
}

/// The negative control of this folder: without the guard a former holder's write commits.
#[tokio::test]
async fn a_transaction_without_a_guard_commits_after_a_take_over() {
    let (database, leases, work, lease) = held().await;
    let mut session = transaction(&database).await;
    work.insert_one(doc! {}).session(&mut session).await.unwrap();
    leases.release("a", lease.value()).await.unwrap();
    let next = leases.acquire("a").await.unwrap();
    session.commit_transaction().await.unwrap();
    assert_eq!(count(&work).await, 1);
    assert!(next.is_valid());
}
