//! The plan for each state of a collection.

use futures_util::future::join_all;
use mongo_lease_migrations::indexes::{self, ObstacleKind, StepKind};
use mongo_lease_testbed::{Server, TestDatabase, Version};
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::{
    apply, blocked, build, create_index, fresh, index, insert, is_refused_as_too_old, listed,
    listed_if_any, plan, refused, run,
};

#[tokio::test]
async fn without_a_collection_the_plan_creates_both_indexes() {
    let database = fresh().await;
    refused(&database, "the collection `locks` does not exist").await;
    let plan = plan(&database).await;
    let kinds: Vec<StepKind> = plan.steps().iter().map(|step| step.kind()).collect();
    assert_eq!(kinds, [StepKind::CreateIndex, StepKind::CreateIndex]);
    assert!(plan.steps().iter().all(|step| !step.changes_existing()));
    assert!(listed_if_any(&database).await.is_none(), "a plan changes nothing");
    plan.apply(|_| ()).await.unwrap();
    assert_eq!(index(&database, "name_1").await.get("unique"), Some(&Bson::Boolean(true)));
    let ttl = index(&database, "expiresAt_1").await;
    assert!(matches!(ttl.get("expireAfterSeconds"), Some(Bson::Int32(0) | Bson::Int64(0))));
    build(&database).await.unwrap();
}

#[tokio::test]
async fn where_both_indexes_are_there_nothing_is_done() {
    let database = fresh().await;
    apply(&database).await.unwrap();
    let before = listed(&database).await;
    let plan = plan(&database).await;
    assert!(plan.is_up_to_date(), "{plan}");
    plan.apply(|_| panic!("there is nothing to tell of")).await.unwrap();
    assert_eq!(listed(&database).await, before);
    build(&database).await.unwrap();
}

/// Whether the server refuses a TTL index with NaN, as MongoDB 7.0 does: then there is no such index to mend. One from
/// before an upgrade is judged without a server, by the library (`indexes::problem`).
async fn is_nan_refused(database: &TestDatabase) -> bool {
    let version = Server::shared().version().await;
    if version < Version::new(7, 0) {
        return false;
    }
    eprintln!("MongoDB {version} makes no TTL index with NaN: only its refusal is asserted");
    let index = doc! { "name": "e", "key": { "expiresAt": 1 }, "expireAfterSeconds": f64::NAN };
    let command = doc! { "createIndexes": "locks", "indexes": [index] };
    let error = database.run_command(command).await.expect_err("7.0 refuses NaN");
    assert!(error.to_string().contains("TTL index"), "{error}");
    true
}

#[tokio::test]
async fn a_ttl_index_with_another_expiry_is_mended_in_place() {
    for seconds in [Bson::Int32(3600), Bson::Int64(3600), Bson::Double(f64::NAN)] {
        let database = fresh().await;
        let options = doc! { "expireAfterSeconds": &seconds };
        if seconds.as_f64().is_some_and(f64::is_nan) && is_nan_refused(&database).await {
            continue;
        }
        create_index(&database, "sweep", doc! { "expiresAt": 1 }, options).await;
        refused(&database, "the index `sweep` on `expiresAt` has an expireAfterSeconds of").await;
        let plan = plan(&database).await;
        let changed: Vec<_> = plan.steps().iter().filter(|step| step.changes_existing()).collect();
        assert!(matches!(changed.as_slice(), [step] if step.kind() == StepKind::ChangeExpiry));
        plan.apply(|_| ()).await.unwrap();
        let mended = index(&database, "sweep").await;
        assert!(matches!(mended.get("expireAfterSeconds"), Some(Bson::Int32(0) | Bson::Int64(0))));
        build(&database).await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_index_on_the_expiry_becomes_a_ttl_index() {
    let database = fresh().await;
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, doc! {}).await;
    refused(&database, "the index `expiresAt_1` on `expiresAt` is not a TTL index").await;
    let version = Server::shared().version().await;
    if version < Version::new(5, 1) {
        eprintln!(
            "MongoDB {version} makes no plain index a TTL index: only the refusal is asserted"
        );
        let why = "is not a TTL index, and a server before MongoDB 5.1 cannot change that";
        return blocked(&database, ObstacleKind::CannotConvert, why).await;
    }
    apply(&database).await.unwrap();
    assert!(index(&database, "expiresAt_1").await.contains_key("expireAfterSeconds"));
    build(&database).await.unwrap();
}

#[tokio::test]
async fn a_plain_index_on_the_name_becomes_unique() {
    let database = fresh().await;
    create_index(&database, "mine", doc! { "name": 1 }, doc! {}).await;
    insert(&database, vec![doc! { "name": "a" }, doc! { "name": "b" }]).await;
    refused(&database, "the index `mine` on `name` is not unique").await;
    if is_refused_as_too_old(&database).await {
        return;
    }
    let plan = plan(&database).await;
    assert_eq!(plan.steps()[0].kind(), StepKind::MakeUnique);
    assert_eq!(plan.steps()[0].commands("locks").len(), 2);
    plan.apply(|_| ()).await.unwrap();
    let made = index(&database, "mine").await;
    assert_eq!(made.get("unique"), Some(&Bson::Boolean(true)));
    assert!(!made.contains_key("prepareUnique"));
    build(&database).await.unwrap();
}

#[tokio::test]
async fn a_conversion_that_was_left_half_done_is_finished() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    if is_refused_as_too_old(&database).await {
        return;
    }
    let index = doc! { "name": "name_1", "prepareUnique": true };
    run(&database, doc! { "collMod": "locks", "index": index }).await;
    refused(&database, "not unique").await;
    apply(&database).await.unwrap();
    build(&database).await.unwrap();
}

#[tokio::test]
async fn duplicates_are_listed_with_holders_and_nothing_is_changed() {
    let database = fresh().await;
    let later = DateTime::MAX;
    let grant = doc! { "value": "v1", "owner": "billing@host:1" };
    insert(
        &database,
        vec![
            doc! { "name": "a", "value": "v1", "expiresAt": later, "grant": grant },
            doc! { "name": "a", "value": "v2", "expiresAt": later },
            doc! { "name": "a", "value": "v3" },
            doc! { "name": "A", "value": "v4" },
            doc! { "value": "v5" },
            doc! { "name": null, "value": "v6" },
        ],
    )
    .await;
    blocked(&database, ObstacleKind::Duplicates, "2 names have more than one document").await;
    let plan = plan(&database).await;
    let [first, second] = plan.obstacles()[0].duplicate_names() else { panic!("{plan}") };
    assert_eq!((first.name.as_str(), first.documents), (Some("a"), 3));
    let values: Vec<_> = first.holders.iter().map(|holder| holder.value.as_deref()).collect();
    assert_eq!(values, [Some("v1"), Some("v2"), Some("v3")]);
    assert_eq!(first.holders[0].owner.as_deref(), Some("billing@host:1"));
    assert_eq!((&second.name, second.documents), (&Bson::Null, 2));
    let shown = plan.to_string();
    for part in [
        "\n    \"a\": 3 documents\n      is held by billing@host:1 for ",
        "\n    no name: 2 documents\n",
    ] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    for odd in ["\"null\"", "lease \""] {
        assert!(!shown.contains(odd), "{odd}: {shown}");
    }
    assert_eq!(listed(&database).await.len(), 1, "nothing but the index on _id");
}

#[tokio::test]
async fn no_more_than_twenty_duplicates_are_listed() {
    let database = fresh().await;
    let names = (0..25).flat_map(|number| vec![doc! { "name": format!("name {number}") }; 2]);
    insert(&database, names.collect()).await;
    blocked(&database, ObstacleKind::Duplicates, "25 names have more than one document").await;
    assert_eq!(plan(&database).await.obstacles()[0].duplicate_names().len(), 20);
}

#[tokio::test]
async fn duplicates_stop_a_conversion_before_anything_is_changed() {
    let database = fresh().await;
    let ttl = doc! { "expireAfterSeconds": 0 };
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, ttl).await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    insert(&database, vec![doc! { "name": "a" }, doc! { "name": "a" }]).await;
    if is_refused_as_too_old(&database).await {
        return;
    }
    let plan = plan(&database).await;
    assert_eq!(plan.obstacles()[0].kind(), ObstacleKind::Duplicates);
    plan.apply(|_| ()).await.expect_err("duplicates");
    assert!(!index(&database, "name_1").await.contains_key("prepareUnique"));
}

#[tokio::test]
async fn duplicates_after_the_plan_are_found_and_conversion_is_undone() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    if !is_refused_as_too_old(&database).await {
        let plan = plan(&database).await;
        insert(&database, vec![doc! { "name": "a" }, doc! { "name": "a" }]).await;
        let error = plan.apply(|_| ()).await.expect_err("duplicates");
        assert!(error.to_string().contains("more than one document"), "{error}");
        assert!(!index(&database, "name_1").await.contains_key("prepareUnique"));
    }
    // And where the index was to be made.
    run(&database, doc! { "dropIndexes": "locks", "index": "name_1" }).await;
    database.collection::<Document>("locks").delete_many(doc! {}).await.unwrap();
    let plan = indexes::plan(&database, "locks").await.unwrap();
    insert(&database, vec![doc! { "name": "a" }, doc! { "name": "a" }]).await;
    let error = plan.apply(|_| ()).await.expect_err("duplicates");
    assert!(error.to_string().contains("more than one document"), "{error}");
}

#[tokio::test]
async fn what_becomes_necessary_after_the_plan_is_not_changed_by_it() {
    let database = fresh().await;
    let plan = plan(&database).await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    let error = plan.apply(|_| ()).await.expect_err("the plan says nothing of a conversion");
    assert!(error.to_string().contains("`name_1` on `name` is not unique"), "{error}");
}

#[tokio::test]
async fn ten_at_once_all_succeed() {
    let database = fresh().await;
    let clients: Vec<TestDatabase> = vec![database.clone(); 10];
    let all = clients.iter().map(|database| async { apply(database).await });
    let results = join_all(all).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(plan(&database).await.is_up_to_date());
    assert_eq!(listed(&database).await.len(), 3);
}

#[tokio::test]
async fn ten_conversions_at_once_all_succeed() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    create_index(&database, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 9 }).await;
    if is_refused_as_too_old(&database).await {
        return;
    }
    let clients: Vec<TestDatabase> = vec![database.clone(); 10];
    let results = join_all(clients.iter().map(|database| async { apply(database).await })).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(plan(&database).await.is_up_to_date());
}

#[tokio::test]
async fn documents_of_another_format_are_named() {
    let database = fresh().await;
    apply(&database).await.unwrap();
    let plain = doc! { "name": "plain", "value": "v", "expiresAt": DateTime::MAX };
    insert(&database, vec![plain]).await;
    assert!(plan(&database).await.is_up_to_date());

    let old = || doc! { "value": "v", "allowanceMs": 1_000_i64 };
    let found = vec![
        doc! { "name": "b", "grant": old() },
        doc! { "name": "a", "queue": [{}, old()] },
        doc! { "name": 7, "holders": [old()] },
    ];
    insert(&database, found).await;
    let named = "3 documents have an unsupported format: 7, \"a\", \"b\"";
    blocked(&database, ObstacleKind::OtherFormat, named).await;
    refused(&database, "documents in an unsupported format").await;

    let many = |number: i32| doc! { "name": format!("many:{number:02}"), "grant": old() };
    insert(&database, (0..22).map(many).collect()).await;
    blocked(&database, ObstacleKind::OtherFormat, "25 documents have an unsupported").await;
    let plan = plan(&database).await;
    assert!(plan.to_string().contains("\"many:16\", 5 more; stop the programs"), "{plan}");
}
