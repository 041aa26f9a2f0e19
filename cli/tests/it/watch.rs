//! `watch` without a terminal: a line for each change.

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::Server;
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::tool::{Running, fresh, leases, migrate, tool_at, tool_for};

/// Starts it. It is listening when it has reported the lease that was there.
async fn watching(database: &Database, arguments: &[&str]) -> (Running, String) {
    let mut running = Running::start(tool_for(database, arguments));
    let first = running.line().await;
    (running, first)
}

async fn json_line(running: &mut Running) -> Value {
    serde_json::from_str(&running.line().await).expect("JSON")
}

#[tokio::test]
async fn each_change_is_a_line() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let _first = manager.acquire("first").await.unwrap();
    let (mut running, first) = watching(&database, &["watch"]).await;
    let words: Vec<&str> = first.split_whitespace().collect();
    assert!(DateTime::parse_rfc3339_str(words[0]).is_ok(), "{first}");
    assert_eq!(words[1..3], ["held", "first"]);
    assert!(words[3].starts_with("test@") && words[4].ends_with('s'), "{first}");
    let lease = manager.acquire("second").owner("billing").await.unwrap();
    let granted = running.line().await;
    assert!(granted.contains("granted   second  billing@"), "{granted}");
    // A renewal does not change the holder.
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    let released = running.line().await;
    assert!(released.contains("released  second  billing@"), "{released}");
    running.signal(Signal::INT);
    let ran = running.ended().await;
    assert_eq!((ran.exit, ran.data.as_str(), ran.talk.as_str()), (0, "", ""));
}

#[tokio::test]
async fn each_change_is_a_line_of_json_with_the_same_keys() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let first = manager.acquire("first").await.unwrap();
    let (mut running, line) = watching(&database, &["watch", "--json"]).await;
    let held: Value = serde_json::from_str(&line).unwrap();
    let keys: Vec<&str> = held.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["at", "change", "name", "owner", "value", "acquired_at", "expires_at"];
    assert_eq!(keys, expected);
    assert_eq!((&held["change"], &held["value"]), (&json!("held"), &json!(first.value())));
    first.release().await.unwrap();
    let released = json_line(&mut running).await;
    assert_eq!((&released["change"], &released["name"]), (&json!("released"), &json!("first")));
    let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 600_000);
    let foreign = doc! { "name": "foreign", "value": "v", "expiresAt": expires_at };
    database.collection("locks").insert_one(foreign).await.unwrap();
    let granted = json_line(&mut running).await;
    assert_eq!((&granted["change"], &granted["owner"]), (&json!("granted"), &json!(null)));
    assert_eq!(granted["acquired_at"], json!(null));
    let taken = doc! { "$set": { "value": "other" } };
    let locks = database.collection::<Document>("locks");
    locks.update_one(doc! { "name": "foreign" }, taken).await.unwrap();
    let granted = json_line(&mut running).await;
    assert_eq!((&granted["change"], &granted["value"]), (&json!("granted"), &json!("other")));
}

#[tokio::test]
async fn an_expiry_of_which_no_event_tells_is_told_of() {
    let database = fresh().await;
    let manager = LeaseManager::builder(&database).max_clock_skew(Duration::ZERO).await.unwrap();
    let _first = manager.acquire("first").await.unwrap();
    let (mut running, _first) = watching(&database, &["watch"]).await;
    // As a crash leaves the document.
    let _key = manager
        .acquire("crashed")
        .ttl(Duration::from_millis(500))
        .await
        .unwrap()
        .detach()
        .await
        .unwrap();
    assert!(running.line().await.contains("granted   crashed"));
    assert!(running.line().await.contains("expired   crashed"));
    // The later removal by the server is no change.
    let lease = manager.acquire("after").await.unwrap();
    lease.release().await.unwrap();
    assert!(running.line().await.contains("granted   after"));
}

#[tokio::test]
async fn only_what_matches_is_told_of() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let _first = manager.acquire("job:0").await.unwrap();
    let other = manager.acquire("mail").await.unwrap();
    let (mut running, line) = watching(&database, &["watch", "job:*"]).await;
    assert!(line.contains("job:0"), "{line}");
    other.release().await.unwrap();
    manager.acquire("mail").await.unwrap().release().await.unwrap();
    let _job = manager.acquire("job:1").await.unwrap();
    let line = running.line().await;
    assert!(line.contains("granted   job:1"), "{line}");
}

#[tokio::test]
async fn a_server_without_change_streams_is_asked_again_and_again() {
    let server = Server::shared_standalone();
    let database = server.database().await;
    migrate(&database).await;
    let manager = leases(&database).await;
    let _first = manager.acquire("first").await.unwrap();
    let mut running = Running::start(tool_at(server.uri(), database.name(), &["watch"]));
    let why = running.talk().await;
    assert!(why.starts_with("no change stream (the server is not a replica set)"), "{why}");
    assert!(running.line().await.contains("held      first"));
    let lease = manager.acquire("second").await.unwrap();
    assert!(running.line().await.contains("granted   second"));
    lease.release().await.unwrap();
    assert!(running.line().await.contains("released  second"));
}

#[tokio::test]
async fn watch_survives_a_server_restart_and_exits_69_without_one() {
    let server = Server::start();
    let database = server.database().await;
    migrate(&database).await;
    let manager = leases(&database).await;
    let _first = manager.acquire("first").await.unwrap();
    let arguments = ["watch", "--timeout", "20s"];
    let mut running = Running::start(tool_at(server.uri(), database.name(), &arguments));
    assert!(running.line().await.contains("held      first"));
    server.restart().await;
    let _second = manager.acquire("second").await.unwrap();
    let line = running.line().await;
    assert!(line.contains("granted   second"), "{line}");
    drop(running);
    let arguments = ["watch", "--timeout", "1s"];
    let mut running = Running::start(tool_at(server.uri(), database.name(), &arguments));
    assert!(running.line().await.contains("held      "));
    server.mongod().kill();
    let ran = running.ended().await;
    assert_eq!(ran.exit, 69, "{ran:?}");
    assert!(
        ran.talk.starts_with("error: the database is out of reach: cannot connect to "),
        "{ran:?}"
    );
}
