//! Indexes that are dropped or created while leases are in use.

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Error};
use mongo_lease_testbed::FailPoint;

use super::{build, create_index, ensure, fresh, insert, listed, refused, run};
use crate::lent::lent_server;

#[tokio::test]
async fn an_acquire_after_the_index_was_dropped_is_refused() {
    let database = fresh().await;
    let _ensured = ensure(&database).await.unwrap();
    let leases = build(&database).await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    run(&database, doc! { "dropIndexes": "locks", "index": "name_1" }).await;
    for name in ["a", "b"] {
        let error = leases.try_acquire(name).await.expect_err("nothing is granted");
        assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
        assert!(error.to_string().contains("mongo-lease-migrate up"), "{error}");
    }
    lease.release().await.unwrap();
    let _ensured = ensure(&database).await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn an_acquire_after_the_collection_was_dropped_is_refused() {
    let database = fresh().await;
    let _ensured = ensure(&database).await.unwrap();
    let leases = build(&database).await.unwrap();
    run(&database, doc! { "drop": "locks" }).await;
    let error = leases.try_acquire("a").await.expect_err("nothing is granted");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    // The refused upsert has created the collection again, without an index.
    assert_eq!(listed(&database).await.len(), 1);
    let error = leases.try_acquire("a").await.expect_err("nothing is granted");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    assert_eq!(database.collection::<Document>("locks").count_documents(doc! {}).await.unwrap(), 0);
    let _ensured = ensure(&database).await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
}

/// Until it is ready the index refuses no duplicates, although the server lists it like the others.
#[tokio::test]
async fn an_index_that_is_still_being_built_does_not_count() {
    let server = lent_server().await;
    let database = server.database().await;
    insert(&database, vec![doc! { "name": "a" }]).await;
    let ttl = doc! { "expireAfterSeconds": 0 };
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, ttl).await;
    let hanging = FailPoint::named("hangAfterStartingIndexBuild").enable(server.uri()).await;
    let builder = database.clone();
    let building = tokio::spawn(async move { ensure(&builder).await });
    hanging.wait_times_entered(1).await;
    refused(&database, "`name_1` on `name` is still being built").await;
    // A second caller that ensures it waits for the same index.
    let mut waiting = Box::pin(ensure(&database));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    hanging.disable().await;
    waiting.await.unwrap();
    let _built = building.await.unwrap().unwrap();
}

/// Dropped at each of its first polls: the begun work goes on or not, and the next call finishes it.
#[tokio::test]
async fn an_ensure_that_was_dropped_is_finished_by_the_next() {
    for polls in 0..6 {
        let database = fresh().await;
        let mut ensuring = Box::pin(ensure(&database));
        for _ in 0..polls {
            if futures_util::poll!(&mut ensuring).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(ensuring);
        let leases = ensure(&database).await.unwrap();
        assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
    }
}
