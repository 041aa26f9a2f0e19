//! Indexes that are accepted as ours, and those that are not.

use mongo_lease::mongodb::bson::{Bson, doc};

use super::{
    blocked, ensures_and_grants, fresh, listed, on_expiry, on_name, refused, run, stuck,
    with_indexes,
};

/// The existing one counts as ours under another name, and with numbers of other types. Those on other keys do not.
#[tokio::test]
async fn each_of_the_two_indexes_is_missed() {
    let unique = on_name(doc! { "name": "by name", "key": { "name": 1.0 } });
    let key = doc! { "expiresAt": 1_i64 };
    let ttl = on_expiry(doc! { "name": "sweep", "key": key, "expireAfterSeconds": 0.0 });
    let on_other_keys = vec![
        on_name(doc! { "name": "name_1_value_1", "key": { "name": 1, "value": 1 } }),
        on_name(doc! { "name": "down", "key": { "name": -1 } }),
        on_expiry(doc! { "name": "created", "key": { "createdAt": 1 } }),
    ];
    for (existing, missing, count) in [
        (vec![unique], "the TTL index on `expiresAt` is missing", 3),
        (vec![ttl], "the unique index on `name` is missing", 3),
        (on_other_keys, "the unique index on `name` is missing", 6),
    ] {
        let database = with_indexes(existing).await;
        refused(&database, missing).await;
        // The second time, those on other keys are beside ours.
        for _ in 0..2 {
            ensures_and_grants(&database).await;
            assert_eq!(listed(&database).await.len(), count, "{missing}, and was made");
        }
    }
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
    // The server would refuse the hint of an acquire (error 27): it could not tell which index is meant.
    let second = on_name(doc! { "name": "second", "unique": false });
    let database = with_indexes([on_name(doc! {}), on_expiry(doc! {}), second]).await;
    blocked(&database, "the index `second` has the same key as `name_1`").await;
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
