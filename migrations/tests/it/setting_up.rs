//! Creating missing indexes, and reporting present ones.

use mongo_lease::{Attempt, LeaseManager};
use mongo_lease_testbed::{FailPoint, LineProcess, Server};
use mongodb::bson::{Document, doc};
use serde_json::json;

use super::{
    create_index, ended, fresh, insert, listed, patient, run, spawn, tool, tool_for,
    up_is_refused_as_too_old,
};

#[tokio::test]
async fn up_is_the_default_and_a_second_run_changes_nothing() {
    let database = fresh().await;
    let first = run(tool_for(&database, &[]));
    assert_eq!(first.exit, 0, "{first:?}");
    assert_eq!(first.data, format!("{}.locks has both indexes\n", database.name()));
    assert!(first.talk.contains("create the unique index `name_1` on `name`"), "{first:?}");
    assert!(first.talk.contains("create the TTL index `expiresAt_1` on `expiresAt`"), "{first:?}");
    let indexes = listed(&database).await;
    assert_eq!(indexes.len(), 3);
    let second = run(tool_for(&database, &["up"]));
    assert_eq!((second.exit, second.data), (0, first.data));
    assert_eq!(second.talk, "");
    assert_eq!(listed(&database).await, indexes);
    let leases = LeaseManager::builder(&database).build().await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn another_collection_is_set_up() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["--collection", "my-leases"]));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(listed(&database).await.is_empty());
    LeaseManager::builder(&database).collection("my-leases").build().await.unwrap();
}

#[tokio::test]
async fn the_database_of_the_connection_string_is_the_default() {
    let database = fresh().await;
    let uri = Server::shared().uri().replacen("/?", &format!("/{}?", database.name()), 1);
    let ran = run(tool(&["--uri", &uri, "up"]));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(listed(&database).await.len(), 3);
}

/// No member has the tag: a read that went by it would find none.
#[tokio::test]
async fn no_read_preference_of_a_connection_string_changes_what_is_read() {
    let elsewhere = "readPreference=secondary&readPreferenceTags=dc:nowhere";
    for options in [elsewhere, "readConcernLevel=linearizable", "w=0"] {
        let database = fresh().await;
        insert(&database, vec![doc! { "name": "a" }]).await;
        let uri = format!("{}&{options}", Server::shared().uri());
        for mode in ["up", "check"] {
            let ran = run(patient(&["--db", database.name(), mode], &uri));
            assert_eq!(ran.exit, 0, "{options}: {ran:?}");
        }
        assert_eq!(listed(&database).await.len(), 3, "{options}");
    }
}

#[tokio::test]
async fn check_tells_drift_from_what_is_up_to_date() {
    let database = fresh().await;
    let before = run(tool_for(&database, &["check"]));
    assert_eq!(before.exit, 1, "{before:?}");
    assert!(before.data.contains("to do: create the unique index `name_1`"), "{before:?}");
    assert!(listed(&database).await.is_empty(), "a check changes nothing");
    assert_eq!(run(tool_for(&database, &["up"])).exit, 0);
    let after = run(tool_for(&database, &["check"]));
    assert_eq!(after.exit, 0, "{after:?}");
}

#[tokio::test]
async fn a_plan_says_what_it_would_do_and_changes_nothing() {
    let database = fresh().await;
    create_index(&database, "n", doc! { "name": 1 }, doc! {}).await;
    if up_is_refused_as_too_old(&database).await {
        return;
    }
    let before = listed(&database).await;
    let ran = run(tool_for(&database, &["plan", "--yes"]));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.data.contains("to do: make the index `n` on `name` unique"), "{ran:?}");
    assert!(ran.data.contains("to do: create the TTL index `expiresAt_1`"), "{ran:?}");
    assert_eq!(listed(&database).await, before);
}

#[tokio::test]
async fn the_json_of_a_plan_keeps_its_keys() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["--json", "plan"]));
    let index = |name: &str, key: &str, option: &str, value: serde_json::Value| {
        json!({ "name": name, "key": { key: 1 }, option: value,
                "collation": { "locale": "simple" } })
    };
    let command = |index: &serde_json::Value| {
        json!({ "createIndexes": "locks", "indexes": [index],
                "writeConcern": { "w": "majority", "j": true } })
    };
    let unique = command(&index("name_1", "name", "unique", json!(true)));
    let ttl = command(&index("expiresAt_1", "expiresAt", "expireAfterSeconds", json!(0)));
    let step = |index: &str, description: &str, command: serde_json::Value| {
        json!({ "kind": "create_index", "index": index, "changes_existing": false,
                "description": description, "commands": [command] })
    };
    let expected = json!({
        "status": "pending",
        "database": database.name(),
        "collection": "locks",
        "steps": [
            step("name_1", "create the unique index `name_1` on `name`", unique),
            step("expiresAt_1", "create the TTL index `expiresAt_1` on `expiresAt`", ttl),
        ],
        "obstacles": [],
        "notes": [],
    });
    assert_eq!(ran.json(), expected);
    assert_eq!(ran.data.lines().count(), 1);
    let up = run(tool_for(&database, &["up", "--json"]));
    assert_eq!((up.exit, up.json()["status"].as_str()), (0, Some("migrated")));
    let again = run(tool_for(&database, &["up", "--json"])).json();
    assert_eq!((&again["status"], &again["steps"]), (&json!("up_to_date"), &json!([])));
}

#[tokio::test]
async fn ten_at_once_all_succeed() {
    let database = fresh().await;
    let started: Vec<_> = (0..10).map(|_| spawn(tool_for(&database, &["up"]))).collect();
    for child in started {
        let ran = ended(child);
        assert_eq!(ran.exit, 0, "{ran:?}");
    }
    assert_eq!(listed(&database).await.len(), 3);
    assert_eq!(run(tool_for(&database, &["check"])).exit, 0);
}

#[tokio::test]
async fn ten_that_change_the_same_indexes_at_once_all_succeed() {
    let database = fresh().await;
    create_index(&database, "n", doc! { "name": 1 }, doc! {}).await;
    create_index(&database, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 60 }).await;
    if up_is_refused_as_too_old(&database).await {
        return;
    }
    let started: Vec<_> = (0..10).map(|_| spawn(tool_for(&database, &["up", "--yes"]))).collect();
    for child in started {
        let ran = ended(child);
        assert_eq!(ran.exit, 0, "{ran:?}");
    }
    assert_eq!(run(tool_for(&database, &["check"])).exit, 0);
}

#[tokio::test]
async fn while_an_index_is_being_built_it_says_so() {
    let server = Server::start();
    let database = server.database().await;
    insert(&database, vec![doc! { "name": "a" }]).await;
    let hanging = FailPoint::named("hangAfterStartingIndexBuild").enable(server.uri()).await;
    let command = tool(&["--uri", server.uri(), "--db", database.name()]);
    let mut running = LineProcess::start_without_input(command).unwrap();
    assert!(running.error_line().await.unwrap().contains("create the unique index"));
    let line = running.error_line().await.unwrap();
    assert!(
        line.starts_with("  name_1: ") && line.contains(" after ") && line.ends_with('s'),
        "{line}"
    );
    hanging.disable().await;
    let ended = running.ended().await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

const FOR_MONGOSH: &str = concat!(
    "// The indexes for leases in billing.locks\n",
    r#"db.getSiblingDB("billing").runCommand({"createIndexes":"locks","indexes":[{"#,
    r#""name":"name_1","key":{"name":1},"unique":true,"collation":{"locale":"simple"}}],"#,
    r#""writeConcern":{"w":"majority","j":true}});"#,
    "\n",
    r#"db.getSiblingDB("billing").runCommand({"createIndexes":"locks","indexes":[{"#,
    r#""name":"expiresAt_1","key":{"expiresAt":1},"expireAfterSeconds":0,"#,
    r#""collation":{"locale":"simple"}}],"writeConcern":{"w":"majority","j":true}});"#,
    "\n// On a sharded cluster, run this too, before the collection has data:\n",
    r#"// sh.shardCollection("billing.locks", { name: 1 }, true, "#,
    r#"{ collation: { locale: "simple" } });"#,
    "\n",
);

#[test]
fn print_needs_no_database() {
    let ran = run(tool(&["print", "--db", "billing"]));
    assert_eq!((ran.exit, ran.data.as_str(), ran.talk.as_str()), (0, FOR_MONGOSH, ""));
    // The database's name is in the connection string, and there is no question.
    let uri = "mongodb://app:s3cret-word@nowhere.invalid/billing";
    let ran = run(tool(&["print", "--uri", uri]));
    assert_eq!((ran.exit, ran.data.as_str(), ran.talk.as_str()), (0, FOR_MONGOSH, ""));
}

#[tokio::test]
async fn what_print_prints_sets_a_database_up() {
    let database = fresh().await;
    let ran = run(tool(&["print", "--json", "--db", database.name()]));
    let printed = ran.json();
    for command in printed["commands"].as_array().unwrap() {
        let command: Document = serde_json::from_value(command.clone()).unwrap();
        database.run_command(command).await.unwrap();
    }
    assert_eq!(run(tool_for(&database, &["check"])).exit, 0);
    let shard = printed["shard_collection"].as_str().unwrap();
    let expected = format!("sh.shardCollection(\"{}.locks\", {{ name: 1 }}, true", database.name());
    assert!(shard.starts_with(&expected), "{shard}");
}
