//! Indexes that are accepted as ours, and those that are not.

use mongo_lease::mongodb::bson::{Bson, doc};

use super::{
    blocked, build, create_index, ensure, ensures_and_grants, fresh, grants, grants_nothing, index,
    listed, on_expiry, on_name, refused, run, stuck, with_indexes,
};
use crate::common::granted;

/// The existing one counts as ours under another name, and with numbers of other types.
#[tokio::test]
async fn each_of_the_two_indexes_is_missed() {
    let unique = on_name(doc! { "name": "by name", "key": { "name": 1.0 } });
    let key = doc! { "expiresAt": 1_i64 };
    let ttl = on_expiry(doc! { "name": "sweep", "key": key, "expireAfterSeconds": 0.0 });
    for (existing, missing) in [
        (unique, "the TTL index on `expiresAt` is missing"),
        (ttl, "the unique index on `name` is missing"),
    ] {
        let database = with_indexes([existing]).await;
        refused(&database, missing).await;
        ensures_and_grants(&database).await;
        assert_eq!(listed(&database).await.len(), 3, "{missing}, and was made");
    }
}

#[tokio::test]
async fn indexes_on_other_keys_are_ignored() {
    let created = doc! { "name": "created", "key": { "createdAt": 1 }, "expireAfterSeconds": 60 };
    let others = [
        on_name(doc! { "name": "name_1_value_1", "key": { "name": 1, "value": 1 } }),
        on_name(doc! { "name": "down", "key": { "name": -1 } }),
        created,
    ];
    let database = with_indexes(others).await;
    refused(&database, "the unique index on `name` is missing").await;
    ensures_and_grants(&database).await;
    // Beside ours too.
    ensures_and_grants(&database).await;
}

#[tokio::test]
async fn look_alikes_are_refused_and_explained() {
    let partial = |field: &str| doc! { "partialFilterExpression": { field: { "$gt": "" } } };
    let sweep = |seconds: Bson| doc! { "name": "sweep", "expireAfterSeconds": seconds };
    let other_expiry = "the index `sweep` on `expiresAt` has an expireAfterSeconds of";
    for (index, why) in [
        (on_name(partial("name")), "is partial"),
        (on_name(doc! { "sparse": true }), "is sparse"),
        (on_name(doc! { "hidden": true }), "is hidden"),
        (on_name(doc! { "collation": { "locale": "en", "strength": 2 } }), "the collation `en`"),
        (on_name(doc! { "name": "n", "unique": false }), "the index `n` on `name` is not unique"),
        (doc! { "name": "name_1", "key": { "value": 1 } }, "another index has its name `name_1`"),
        (on_expiry(partial("value")), "is partial"),
        (on_expiry(doc! { "sparse": true }), "is sparse"),
        (on_expiry(doc! { "hidden": true }), "is hidden"),
        (on_expiry(doc! { "unique": true }), "is unique"),
        (on_expiry(doc! { "collation": { "locale": "en" } }), "the collation `en`"),
        (on_expiry(sweep(Bson::Int32(3_600))), other_expiry),
        (on_expiry(sweep(Bson::Int64(3_600))), other_expiry),
        (
            doc! { "name": "expiresAt_1", "key": { "expiresAt": 1 } },
            "the index `expiresAt_1` on `expiresAt` is not a TTL index",
        ),
    ] {
        let database = with_indexes([index]).await;
        blocked(&database, why).await;
    }
}

/// The server then refuses the hint of an acquire (error 27): it cannot tell which index is meant.
#[tokio::test]
async fn a_second_index_with_the_same_key_is_refused() {
    let partial = doc! { "unique": false, "partialFilterExpression": { "name": { "$gt": "" } } };
    let collated = doc! { "collation": { "locale": "en", "strength": 2 } };
    let (sparse, plain) = (doc! { "unique": false, "sparse": true }, doc! { "unique": false });
    for options in [partial, sparse, plain, collated] {
        let database = fresh().await;
        let leases = ensure(&database).await.unwrap();
        let mut second = on_name(options);
        second.insert("name", "second");
        create_index(&database, second).await;
        grants_nothing(&leases, "a").await;
        blocked(&database, "the index `second` has the same key as `name_1`").await;
        run(&database, doc! { "dropIndexes": "locks", "index": "second" }).await;
        grants(&leases).await;
    }
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

#[tokio::test]
async fn in_a_case_insensitive_collection_two_names_are_two_leases() {
    let database = fresh().await;
    let collation = doc! { "locale": "en", "strength": 2 };
    run(&database, doc! { "create": "locks", "collation": collation }).await;
    // An index takes the collation of its collection if it names none.
    create_index(&database, on_name(doc! {})).await;
    refused(&database, "`A` may equal `a`").await;
    run(&database, doc! { "dropIndexes": "locks", "index": "name_1" }).await;
    ensure(&database).await.unwrap();
    assert!(!index(&database, "name_1").await.contains_key("collation"));
    let leases = build(&database).await.unwrap();
    let _both = [granted(&leases, "a").await, granted(&leases, "A").await];
}
