//! Ensuring the indexes, on each state of a collection.

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Error, LeaseManager};

use super::{ensure, ensures_and_grants, fresh, index, listed, refused, stuck};
use crate::patience::locks;

#[tokio::test]
async fn without_a_collection_ensuring_makes_both_indexes_once() {
    let database = fresh().await;
    refused(&database, "the collection `locks` does not exist").await;
    let reader = LeaseManager::builder(&database).ensure_indexes(true).read_only(true);
    let error = reader.build().await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { option: "ensure_indexes", .. }), "{error}");
    assert!(listed(&database).await.is_empty(), "a refusal makes nothing");
    for ensured in join_all((0..10).map(|_| ensure(&database))).await {
        ensured.unwrap();
    }
    assert_eq!(index(&database, "name_1").await.get("unique"), Some(&Bson::Boolean(true)));
    let ttl = index(&database, "expiresAt_1").await;
    assert!(matches!(ttl.get("expireAfterSeconds"), Some(Bson::Int32(0) | Bson::Int64(0))));
    let before = listed(&database).await;
    assert_eq!(before.len(), 3);
    ensure(&database).await.unwrap();
    assert_eq!(listed(&database).await, before);
}

#[tokio::test]
async fn duplicates_are_counted_and_nothing_is_changed() {
    let database = fresh().await;
    let (locks, later) = (locks(&database), DateTime::MAX);
    let duplicates = [
        doc! { "name": "a", "value": "v1", "expiresAt": later },
        doc! { "name": "a", "value": "v2", "expiresAt": later },
        doc! { "name": "A", "value": "v4" },
    ];
    locks.insert_many(duplicates).await.unwrap();
    stuck(&database, "1 name has more than one document, so `name` cannot be unique; the").await;
    let nameless = [doc! { "value": "v5" }, doc! { "name": null, "value": "v6" }];
    locks.insert_many(nameless).await.unwrap();
    stuck(&database, "2 names have more than one document, so `name` cannot be unique; the").await;
    assert_eq!(listed(&database).await.len(), 1, "nothing but the index on _id");
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
        ensures_and_grants(&database).await;
    }
}
