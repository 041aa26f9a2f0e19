//! Ensuring the indexes, on each state of a collection.

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase, Version};

use super::{
    blocked, build, create_index, ensure, fresh, index, insert, listed, listed_if_any, refused,
    run, stuck,
};

#[tokio::test]
async fn without_a_collection_ensuring_makes_both_indexes() {
    let database = fresh().await;
    refused(&database, "the collection `locks` does not exist").await;
    assert!(listed_if_any(&database).await.is_none(), "a refusal makes nothing");
    ensure(&database).await.unwrap();
    assert_eq!(index(&database, "name_1").await.get("unique"), Some(&Bson::Boolean(true)));
    let ttl = index(&database, "expiresAt_1").await;
    assert!(matches!(ttl.get("expireAfterSeconds"), Some(Bson::Int32(0) | Bson::Int64(0))));
}

#[tokio::test]
async fn a_manager_that_only_reads_makes_no_index() {
    let database = fresh().await;
    let builder = LeaseManager::builder(&database).ensure_indexes(true).read_only(true);
    let error = builder.build().await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { option: "ensure_indexes", .. }), "{error}");
    assert!(listed_if_any(&database).await.is_none());
}

#[tokio::test]
async fn where_both_indexes_are_there_nothing_is_done() {
    let database = fresh().await;
    let _ensured = ensure(&database).await.unwrap();
    let before = listed(&database).await;
    ensure(&database).await.unwrap();
    assert_eq!(listed(&database).await, before);
}

#[tokio::test]
async fn ensure_indexes_creates_missing_indexes_and_changes_none() {
    let database = fresh().await;
    create_index(&database, "n", doc! { "name": 1 }, doc! {}).await;
    let before = listed(&database).await;
    let message = ensure(&database).await.expect_err("it would have to be changed").to_string();
    assert!(message.contains("`n` on `name` is not unique; run `mongo-lease-migrate"), "{message}");
    assert_eq!(listed(&database).await, before);
    run(&database, doc! { "dropIndexes": "locks", "index": "n" }).await;
    let options = doc! { "unique": true };
    create_index(&database, "n", doc! { "name": 1 }, options).await;
    ensure(&database).await.unwrap();
    assert_eq!(listed(&database).await.len(), 3);
}

#[tokio::test]
async fn a_ttl_index_with_another_expiry_is_refused_and_left_alone() {
    for seconds in [Bson::Int32(3600), Bson::Int64(3600), Bson::Double(f64::NAN)] {
        let database = fresh().await;
        let version = Server::shared().version().await;
        let options = doc! { "expireAfterSeconds": &seconds };
        if version >= Version::new(7, 0) && seconds.as_f64().is_some_and(f64::is_nan) {
            eprintln!(
                "MongoDB {version} makes no TTL index with NaN: only its refusal is asserted"
            );
            let index =
                doc! { "name": "e", "key": { "expiresAt": 1 }, "expireAfterSeconds": seconds };
            let command = doc! { "createIndexes": "locks", "indexes": [index] };
            let error = database.run_command(command).await.expect_err("7.0 refuses NaN");
            assert!(error.to_string().contains("TTL index"), "{error}");
            continue;
        }
        create_index(&database, "sweep", doc! { "expiresAt": 1 }, options).await;
        blocked(&database, "the index `sweep` on `expiresAt` has an expireAfterSeconds of").await;
    }
}

#[tokio::test]
async fn a_plain_index_on_the_expiry_is_refused_and_left_alone() {
    let database = fresh().await;
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, doc! {}).await;
    blocked(&database, "the index `expiresAt_1` on `expiresAt` is not a TTL index").await;
}

#[tokio::test]
async fn a_half_done_conversion_is_refused_and_left_alone() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    let index = doc! { "name": "name_1", "prepareUnique": true };
    let command = doc! { "collMod": "locks", "index": index };
    let version = Server::shared().version().await;
    if version < Version::new(6, 0) {
        eprintln!("MongoDB {version} begins no conversion: only its refusal is asserted");
        let error = database.run_command(command).await.expect_err("a server before 6.0 refuses");
        assert!(error.to_string().contains("is an unknown field"), "{error}");
    } else {
        run(&database, command).await;
    }
    blocked(&database, "the index `name_1` on `name` is not unique").await;
}

#[tokio::test]
async fn duplicates_are_counted_and_nothing_is_changed() {
    let database = fresh().await;
    let later = DateTime::MAX;
    insert(
        &database,
        vec![
            doc! { "name": "a", "value": "v1", "expiresAt": later },
            doc! { "name": "a", "value": "v2", "expiresAt": later },
            doc! { "name": "A", "value": "v4" },
        ],
    )
    .await;
    stuck(&database, "1 name has more than one document, so `name` cannot be unique; the").await;
    insert(&database, vec![doc! { "value": "v5" }, doc! { "name": null, "value": "v6" }]).await;
    stuck(&database, "2 names have more than one document, so `name` cannot be unique; the").await;
    assert_eq!(listed(&database).await.len(), 1, "nothing but the index on _id");
}

#[tokio::test]
async fn ten_at_once_all_succeed() {
    let database = fresh().await;
    let clients: Vec<TestDatabase> = vec![database.clone(); 10];
    let all = clients.iter().map(|database| async { ensure(database).await });
    for ensured in join_all(all).await {
        let _ensured = ensured.unwrap();
    }
    assert_eq!(listed(&database).await.len(), 3);
    build(&database).await.unwrap();
}
