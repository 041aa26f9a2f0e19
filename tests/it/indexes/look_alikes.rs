//! Indexes that are accepted as ours, and those that are not.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Attempt, Error};

use super::{blocked, build, create_index, ensure, fresh, index, listed, refused, run, stuck};

#[tokio::test]
async fn indexes_under_other_names_are_accepted() {
    let database = fresh().await;
    create_index(&database, "by name", doc! { "name": 1.0 }, doc! { "unique": true }).await;
    let options = doc! { "expireAfterSeconds": 0.0 };
    create_index(&database, "sweep", doc! { "expiresAt": 1_i64 }, options).await;
    let before = listed(&database).await;
    let _ensured = ensure(&database).await.unwrap();
    assert_eq!(listed(&database).await, before);
    let leases = build(&database).await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn each_of_the_two_indexes_is_missed() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! { "unique": true }).await;
    refused(&database, "the TTL index on `expiresAt` is missing").await;
    let database = fresh().await;
    let options = doc! { "expireAfterSeconds": 0 };
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, options).await;
    refused(&database, "the unique index on `name` is missing").await;
    let _ensured = ensure(&database).await.unwrap();
    build(&database).await.unwrap();
}

#[tokio::test]
async fn compound_indexes_starting_with_name_are_ignored() {
    let database = fresh().await;
    let key = doc! { "name": 1, "value": 1 };
    create_index(&database, "name_1_value_1", key, doc! { "unique": true }).await;
    create_index(&database, "down", doc! { "name": -1 }, doc! { "unique": true }).await;
    refused(&database, "the unique index on `name` is missing").await;
    let _ensured = ensure(&database).await.unwrap();
    let leases = build(&database).await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn look_alikes_are_refused_and_explained() {
    let partial = doc! { "partialFilterExpression": { "name": { "$gt": "" } } };
    for (options, why) in [
        (partial, "is partial"),
        (doc! { "sparse": true }, "is sparse"),
        (doc! { "hidden": true }, "is hidden"),
        (doc! { "collation": { "locale": "en", "strength": 2 } }, "the collation `en`"),
    ] {
        let database = fresh().await;
        let mut unique = doc! { "unique": true };
        unique.extend(options);
        create_index(&database, "name_1", doc! { "name": 1 }, unique).await;
        let ttl = doc! { "expireAfterSeconds": 0 };
        create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, ttl).await;
        blocked(&database, why).await;
    }
}

#[tokio::test]
async fn look_alikes_of_the_ttl_index_are_refused_and_explained() {
    let partial = doc! { "partialFilterExpression": { "value": { "$gt": "" } } };
    for (options, why) in [
        (partial, "is partial"),
        (doc! { "sparse": true }, "is sparse"),
        (doc! { "hidden": true }, "is hidden"),
        (doc! { "unique": true }, "is unique"),
        (doc! { "collation": { "locale": "en" } }, "the collation `en`"),
    ] {
        let database = fresh().await;
        create_index(&database, "name_1", doc! { "name": 1 }, doc! { "unique": true }).await;
        let mut ttl = doc! { "expireAfterSeconds": 0 };
        ttl.extend(options);
        create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, ttl).await;
        blocked(&database, why).await;
    }
}

/// The server then refuses the hint of an acquire (error 27): it cannot tell which index is meant.
#[tokio::test]
async fn a_second_index_with_the_same_key_is_refused() {
    let partial = doc! { "partialFilterExpression": { "name": { "$gt": "" } } };
    let collated = doc! { "unique": true, "collation": { "locale": "en", "strength": 2 } };
    for options in [partial, doc! { "sparse": true }, doc! {}, collated] {
        let database = fresh().await;
        let _ensured = ensure(&database).await.unwrap();
        let leases = build(&database).await.unwrap();
        create_index(&database, "second", doc! { "name": 1 }, options).await;
        let error = leases.try_acquire("a").await.expect_err("the hint is refused");
        assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
        blocked(&database, "the index `second` has the same key as `name_1`").await;
        run(&database, doc! { "dropIndexes": "locks", "index": "second" }).await;
        assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
    }
}

#[tokio::test]
async fn a_name_that_another_index_has_is_explained() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "value": 1 }, doc! {}).await;
    let ttl = doc! { "expireAfterSeconds": 0 };
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, ttl).await;
    blocked(&database, "another index has its name `name_1`").await;
}

#[tokio::test]
async fn views_time_series_and_capped_collections_are_refused() {
    for (options, kind) in [
        (doc! { "viewOn": "others", "pipeline": [] }, "a view"),
        (doc! { "timeseries": { "timeField": "expiresAt" } }, "a time-series collection"),
        (doc! { "capped": true, "size": 4096 }, "a capped collection"),
    ] {
        let database = fresh().await;
        let mut create = doc! { "create": "locks" };
        create.extend(options);
        run(&database, create).await;
        refused(&database, "").await;
        stuck(&database, &format!("`locks` is {kind}")).await;
    }
}

/// A plan mentions it.
#[tokio::test]
async fn a_ttl_index_on_another_field_stands_in_nobodys_way() {
    let database = fresh().await;
    let _ensured = ensure(&database).await.unwrap();
    let options = doc! { "expireAfterSeconds": 60 };
    create_index(&database, "created", doc! { "createdAt": 1 }, options).await;
    let _ensured = ensure(&database).await.unwrap();
    build(&database).await.unwrap();
}

#[tokio::test]
async fn in_a_case_insensitive_collection_two_names_are_two_leases() {
    let database = fresh().await;
    let collation = doc! { "locale": "en", "strength": 2 };
    run(&database, doc! { "create": "locks", "collation": collation }).await;
    let _ensured = ensure(&database).await.unwrap();
    assert!(!index(&database, "name_1").await.contains_key("collation"));
    let leases = build(&database).await.unwrap();
    let lower = leases.try_acquire("a").await.unwrap();
    let upper = leases.try_acquire("A").await.unwrap();
    assert!(matches!((lower, upper), (Attempt::Granted(_), Attempt::Granted(_))));
}

#[tokio::test]
async fn an_index_that_takes_the_default_collation_is_refused() {
    let database = fresh().await;
    let collation = doc! { "locale": "en", "strength": 2 };
    run(&database, doc! { "create": "locks", "collation": collation }).await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! { "unique": true }).await;
    refused(&database, "`A` may equal `a`").await;
}
