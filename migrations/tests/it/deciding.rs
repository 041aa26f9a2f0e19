//! Questions to the user, and decisions that only a person can make.

use mongodb::bson::{Bson, DateTime, doc};
use serde_json::json;

use super::{create_index, fresh, insert, listed, run, tool_for, up_is_refused_as_too_old};

#[tokio::test]
async fn another_expiry_is_mended_in_place_when_that_is_allowed() {
    let database = fresh().await;
    create_index(&database, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 60 }).await;
    let before = listed(&database).await;
    let asked = run(tool_for(&database, &["up"]));
    assert_eq!(asked.exit, 1, "{asked:?}");
    assert!(asked.talk.contains("--yes"), "{asked:?}");
    assert_eq!(listed(&database).await, before, "nothing is changed, nor made");
    let ran = run(tool_for(&database, &["up", "--yes"]));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.talk.contains("of the index `e` from 60 to 0"), "{ran:?}");
    let indexes = listed(&database).await;
    let mended =
        indexes.iter().find(|index| index.get("name").and_then(Bson::as_str) == Some("e")).unwrap();
    assert!(matches!(mended.get("expireAfterSeconds"), Some(Bson::Int32(0) | Bson::Int64(0))));
}

#[tokio::test]
async fn a_non_unique_index_is_converted_when_allowed() {
    let database = fresh().await;
    create_index(&database, "n", doc! { "name": 1 }, doc! {}).await;
    insert(&database, vec![doc! { "name": "a" }]).await;
    if up_is_refused_as_too_old(&database).await {
        return;
    }
    let asked = run(tool_for(&database, &["up", "--json"]));
    assert_eq!((asked.exit, asked.json()["status"].as_str()), (1, Some("pending")));
    let step = &asked.json()["steps"][0];
    assert_eq!((&step["kind"], &step["changes_existing"]), (&json!("make_unique"), &json!(true)));
    let ran = run(tool_for(&database, &["up", "--yes"]));
    assert_eq!(ran.exit, 0, "{ran:?}");
    let indexes = listed(&database).await;
    let made =
        indexes.iter().find(|index| index.get("name").and_then(Bson::as_str) == Some("n")).unwrap();
    assert_eq!(made.get("unique"), Some(&Bson::Boolean(true)));
}

#[tokio::test]
async fn duplicates_are_listed_with_holders_and_nothing_is_changed() {
    let database = fresh().await;
    let grant = doc! { "value": "v1", "owner": "billing@host:1" };
    insert(
        &database,
        vec![
            doc! { "name": "a", "value": "v1", "expiresAt": DateTime::MAX, "grant": grant },
            doc! { "name": "a", "value": "v2" },
            doc! { "name": "b", "value": "v3" },
        ],
    )
    .await;
    for task in ["up", "plan", "check"] {
        let ran = run(tool_for(&database, &[task, "--yes"]));
        assert_eq!(ran.exit, 1, "{ran:?}");
        for part in ["1 name has more than one document", "\"a\": 2 documents", "billing@host:1"] {
            assert!(ran.data.contains(part), "{part}: {ran:?}");
        }
        assert!(!ran.data.contains("v3"), "{ran:?}");
    }
    let ran = run(tool_for(&database, &["--json"]));
    let found = ran.json();
    assert_eq!((ran.exit, found["status"].as_str()), (1, Some("blocked")));
    let obstacle = &found["obstacles"][0];
    assert_eq!(obstacle["kind"], json!("duplicates"));
    let duplicate = &obstacle["duplicates"][0];
    assert_eq!((&duplicate["name"], &duplicate["documents"]), (&json!("a"), &json!(2)));
    let holder = &duplicate["holders"][0];
    assert_eq!(holder["owner"], json!("billing@host:1"));
    assert_eq!((&holder["value"], &holder["state"]), (&json!("v1"), &json!("held")));
    assert_eq!(listed(&database).await.len(), 1, "nothing but the index on _id");
}

#[tokio::test]
async fn look_alikes_are_explained_and_left_alone() {
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
        let before = listed(&database).await;
        let ran = run(tool_for(&database, &["up", "--yes"]));
        assert_eq!(ran.exit, 1, "{ran:?}");
        assert!(ran.data.contains(why), "{ran:?}");
        assert!(ran.data.contains("dropIndex(\"name_1\")"), "{ran:?}");
        assert_eq!(listed(&database).await, before);
    }
}

#[tokio::test]
async fn a_taken_name_and_a_second_index_are_explained() {
    let database = fresh().await;
    create_index(&database, "name_1", doc! { "value": 1 }, doc! {}).await;
    let ran = run(tool_for(&database, &["--json"]));
    assert_eq!((ran.exit, &ran.json()["obstacles"][0]["kind"]), (1, &json!("name_taken")));

    let database = fresh().await;
    assert_eq!(run(tool_for(&database, &[])).exit, 0);
    create_index(&database, "second", doc! { "name": 1 }, doc! { "sparse": true }).await;
    let ran = run(tool_for(&database, &["--json"]));
    assert_eq!((ran.exit, &ran.json()["obstacles"][0]["kind"]), (1, &json!("second_index")));
}

#[tokio::test]
async fn a_view_is_refused() {
    let database = fresh().await;
    let view = doc! { "create": "locks", "viewOn": "others", "pipeline": [] };
    database.run_command(view).await.unwrap();
    let ran = run(tool_for(&database, &[]));
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.data.contains("`locks` is a view"), "{ran:?}");
}
