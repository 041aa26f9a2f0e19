//! Indexes that are accepted as ours, and those that are not.

use mongo_lease::{Attempt, Error as LeaseError};
use mongo_lease_migrations::indexes::ObstacleKind;
use mongodb::bson::doc;

use super::{apply, blocked, build, create_index, fresh, index, plan, refused, run};

#[tokio::test]
async fn indexes_under_other_names_are_accepted() {
    let database = fresh().await;
    create_index(&database, "by name", doc! { "name": 1.0 }, doc! { "unique": true }).await;
    let options = doc! { "expireAfterSeconds": 0.0 };
    create_index(&database, "sweep", doc! { "expiresAt": 1_i64 }, options).await;
    assert!(plan(&database).await.is_up_to_date());
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
    apply(&database).await.unwrap();
    build(&database).await.unwrap();
}

#[tokio::test]
async fn compound_indexes_starting_with_name_are_ignored() {
    let database = fresh().await;
    let key = doc! { "name": 1, "value": 1 };
    create_index(&database, "name_1_value_1", key, doc! { "unique": true }).await;
    create_index(&database, "down", doc! { "name": -1 }, doc! { "unique": true }).await;
    refused(&database, "the unique index on `name` is missing").await;
    apply(&database).await.unwrap();
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
        refused(&database, why).await;
        blocked(&database, ObstacleKind::LookAlike, why).await;
        let plan = plan(&database).await;
        let advice = plan.obstacles()[0].advice();
        assert!(advice.contains(r#"db.getCollection("locks").dropIndex("name_1")"#), "{advice}");
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
        refused(&database, why).await;
        blocked(&database, ObstacleKind::LookAlike, why).await;
    }
}

/// The server then refuses the hint of an acquire (error 27): it cannot tell which index is meant.
#[tokio::test]
async fn a_second_index_with_the_same_key_is_refused() {
    let partial = doc! { "partialFilterExpression": { "name": { "$gt": "" } } };
    let collated = doc! { "unique": true, "collation": { "locale": "en", "strength": 2 } };
    for options in [partial, doc! { "sparse": true }, doc! {}, collated] {
        let database = fresh().await;
        apply(&database).await.unwrap();
        let leases = build(&database).await.unwrap();
        create_index(&database, "second", doc! { "name": 1 }, options).await;
        let error = leases.try_acquire("a").await.expect_err("the hint is refused");
        assert!(matches!(error, LeaseError::NotMigrated { .. }), "{error:?}");
        refused(&database, "the index `second` has the same key as `name_1`").await;
        blocked(&database, ObstacleKind::SecondIndex, "`second`").await;
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
    refused(&database, "another index has its name `name_1`").await;
    blocked(&database, ObstacleKind::NameTaken, "`name_1`").await;
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
        blocked(&database, ObstacleKind::NotACollection, kind).await;
    }
}

#[tokio::test]
async fn a_ttl_index_on_another_field_is_noted() {
    let database = fresh().await;
    apply(&database).await.unwrap();
    let options = doc! { "expireAfterSeconds": 60 };
    create_index(&database, "created", doc! { "createdAt": 1 }, options).await;
    let plan = plan(&database).await;
    assert!(plan.is_up_to_date());
    assert!(matches!(plan.notes(), [note] if note.contains("`created` on `createdAt`")));
}

#[tokio::test]
async fn in_a_case_insensitive_collection_two_names_are_two_leases() {
    let database = fresh().await;
    let collation = doc! { "locale": "en", "strength": 2 };
    run(&database, doc! { "create": "locks", "collation": collation }).await;
    apply(&database).await.unwrap();
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
