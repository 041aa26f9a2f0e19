//! The cost of attempts for the server.

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Document, Timestamp, doc};
use mongo_lease_testbed::TestDatabase;

use crate::common::{document, setup};

#[tokio::test]
async fn a_losing_attempt_writes_nothing() {
    let (database, leases) = setup().await;
    let _lease = leases.acquire("a").renew(false).await.unwrap();
    let (count, newest) = oplog(&database).await;
    let before = document(&database, "a").await;
    for _ in 0..10 {
        assert!(!leases.try_acquire("a").await.unwrap().is_granted());
    }
    assert_eq!(oplog(&database).await, (count, newest));
    assert_eq!(document(&database, "a").await, before);
    // A grant would have shown in the oplog.
    let _other = leases.acquire("b").await.unwrap();
    let (more, newer) = oplog(&database).await;
    assert!(more > count);
    assert!(newer > newest);
}

/// How many oplog entries concern this collection, and the time of the newest.
async fn oplog(database: &TestDatabase) -> (usize, Option<Timestamp>) {
    let oplog = database.client().database("local").collection::<Document>("oplog.rs");
    let filter = doc! { "ns": format!("{}.locks", database.name()) };
    let entries: Vec<Document> = oplog.find(filter).await.unwrap().try_collect().await.unwrap();
    let newest = entries.last().map(|entry| entry.get_timestamp("ts").unwrap());
    (entries.len(), newest)
}
