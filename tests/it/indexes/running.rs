//! Indexes that are dropped or created while leases are in use.

use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::FailPoint;

use super::{
    create_index, ensure, ensures_and_grants, fresh, grants_nothing, listed, on_expiry, refused,
    run,
};
use crate::lent::lent_server;
use crate::patience::locks;

#[tokio::test]
async fn an_acquire_after_the_index_was_dropped_is_refused() {
    let database = fresh().await;
    let leases = ensure(&database).await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    run(&database, doc! { "dropIndexes": "locks", "index": "name_1" }).await;
    grants_nothing(&leases, "a").await;
    grants_nothing(&leases, "b").await;
    lease.release().await.unwrap();
    ensures_and_grants(&database).await;
}

#[tokio::test]
async fn an_acquire_after_the_collection_was_dropped_is_refused() {
    let database = fresh().await;
    let leases = ensure(&database).await.unwrap();
    run(&database, doc! { "drop": "locks" }).await;
    grants_nothing(&leases, "a").await;
    // The refused upsert has created the collection again, without an index.
    assert_eq!(listed(&database).await.len(), 1);
    grants_nothing(&leases, "a").await;
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
    ensures_and_grants(&database).await;
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
