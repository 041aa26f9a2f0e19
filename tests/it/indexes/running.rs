//! Indexes that are dropped or created while leases are in use.

use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::FailPoint;

use super::{
    create_index, ensure, ensures_and_grants, fresh, grants_nothing, listed, on_expiry, refused,
    run,
};
use crate::common::builder;
use crate::lent::lent_server;
use crate::patience::locks;

/// A refused upsert creates a collection that was dropped, without an index but that on `_id`.
#[tokio::test]
async fn an_acquire_after_the_index_was_dropped_is_refused() {
    let of_the_index = doc! { "dropIndexes": "locks", "index": "name_1" };
    for (drop, indexes_left) in [(of_the_index, 2), (doc! { "drop": "locks" }, 1)] {
        let database = fresh().await;
        let leases = ensure(&database).await.unwrap();
        let inserts = builder(&database).tombstones(true).build().await.unwrap();
        let lease = leases.acquire("a").await.unwrap();
        run(&database, drop).await;
        for name in ["a", "b"] {
            grants_nothing(&leases, name).await;
        }
        // Its attempt for a new name is an insert, and no query comes first.
        grants_nothing(&inserts, "c").await;
        let granted = locks(&database).count_documents(doc! { "name": "c" }).await.unwrap();
        assert_eq!(granted, 0);
        assert_eq!(listed(&database).await.len(), indexes_left);
        lease.release().await.unwrap();
        assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
        ensures_and_grants(&database).await;
    }
}

/// Until it is ready the index refuses no duplicates, although the server lists it like the others.
#[tokio::test]
async fn an_index_that_is_still_being_built_does_not_count() {
    let server = lent_server().await;
    let database = server.database().await;
    // A collection that is not empty: an index on an empty one is there at once.
    locks(&database).insert_one(doc! { "name": "a" }).await.unwrap();
    create_index(&database, on_expiry(doc! {})).await;
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
