//! Somebody else holds the lease, or the database does not answer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mongo_lease_testbed::Server;
use mongodb::bson::{Document, doc};

use super::tool::{
    Running, fresh, leases, lent_server, migrate, run, soon, tool, tool_at, tool_for,
};

#[tokio::test]
async fn without_waiting_a_lease_that_is_held_is_75() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").await.unwrap();
    for option in ["--no-wait", "--wait=0s"] {
        let ran = run(tool_for(&database, &["run", "a", option, "--", "echo", "no"])).await;
        assert_eq!((ran.exit, ran.data.as_str()), (75, ""), "{ran:?}");
        assert!(ran.talk.starts_with("error: lease \"a\" is held by test@"), "{ran:?}");
    }
    lease.release().await.unwrap();
    let ran = run(tool_for(&database, &["run", "a", "--no-wait", "--", "echo", "yes"])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, "yes\n"), "{ran:?}");
}

#[tokio::test]
async fn when_the_wait_is_over_it_is_75() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let _lease = manager.acquire("a").await.unwrap();
    let started = Instant::now();
    let ran = run(tool_for(&database, &["run", "a", "--wait", "1s", "--", "echo", "no"])).await;
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!((ran.exit, ran.data.as_str()), (75, ""), "{ran:?}");
    assert!(ran.talk.contains("waiting for \"a\": test@"), "{ran:?}");
    assert!(ran.talk.contains("was not granted within 1"), "{ran:?}");
}

#[tokio::test]
async fn who_waits_gets_it_when_it_is_given_back() {
    let database = fresh().await;
    let manager = leases(&database).await;
    for wait in ["60s", "forever"] {
        let lease = manager.acquire("a").await.unwrap();
        let arguments = ["run", "a", "--wait", wait, "--", "echo", "mine"];
        let mut running = Running::start(tool_for(&database, &arguments));
        assert!(running.talk().await.starts_with("waiting for \"a\": test@"));
        lease.release().await.unwrap();
        assert_eq!(running.line().await, "mine");
        assert_eq!(running.ended().await.exit, 0);
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_69_in_bounded_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("mongodb://{}/app", listener.local_addr().unwrap());
    let tasks = [
        &["run", "a", "--", "echo", "no"][..],
        &["acquire", "a", "--json"],
        &["ls", "--json"],
        &["show", "a", "--json"],
        &["watch", "--json"],
        &["release", "a", "--force", "--json"],
        &["doctor", "--json"],
    ];
    let is_given_up = async || {
        for task in tasks {
            let mut command = tool(&["--timeout", "500ms", "--uri", &uri]);
            command.args(task);
            let ran = soon("it gives up", run(command)).await;
            assert_eq!(ran.exit, 69, "{task:?}: {ran:?}");
            assert!(ran.talk.starts_with("error: the database "), "{task:?}: {ran:?}");
            if task.contains(&"--json") {
                let failure = ran.json();
                assert_eq!(failure["status"], "failed", "{ran:?}");
                assert_eq!(failure["exit_code"], 69, "{ran:?}");
                assert!(ran.talk.contains(failure["message"].as_str().unwrap()), "{ran:?}");
            } else {
                assert_eq!(ran.data, "");
            }
        }
    };
    // It accepts connections, and never answers.
    is_given_up().await;
    drop(listener);
    is_given_up().await;
}

#[tokio::test]
async fn a_database_that_stops_answering_while_somebody_waits_is_69() {
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    let manager = leases(&database).await;
    let _lease = manager.acquire("a").await.unwrap();
    // Before the call for the lease, so that no holder is known.
    let arguments = ["run", "b", "--wait", "2s", "--timeout", "2s", "--", "echo", "no"];
    server.mongod().pause();
    let ran = run(tool_at(server.uri(), database.name(), &arguments)).await;
    assert_eq!((ran.exit, ran.data.as_str()), (69, ""), "{ran:?}");
    server.mongod().resume();
}

#[tokio::test]
async fn a_collection_that_is_not_set_up_is_78() {
    let database = Server::shared().database().await;
    for task in [&["run", "a", "--", "echo", "no"][..], &["ls"], &["show", "a"]] {
        let ran = run(tool_for(&database, task)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (78, ""), "{ran:?}");
        let advice = format!("mongo-lease-migrate up --db {}", database.name());
        assert!(ran.talk.contains(&advice), "{ran:?}");
    }
    // `--assume-indexes` is believed; an acquire still needs the index itself.
    let ran = run(tool_for(&database, &["ls", "--assume-indexes"])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, ""), "{ran:?}");
    let assumed = ["run", "a", "--assume-indexes", "--no-wait", "--", "echo", "no"];
    let ran = run(tool_for(&database, &assumed)).await;
    assert_ne!(ran.exit, 0, "{ran:?}");
    assert_eq!(ran.data, "", "{ran:?}");
}

#[tokio::test]
async fn a_damaged_lease_is_65() {
    let database = fresh().await;
    let damaged = doc! { "name": "a", "value": "v", "expiresAt": "tomorrow" };
    database.collection("locks").insert_one(damaged).await.unwrap();
    let ran = run(tool_for(&database, &["run", "a", "--", "echo", "no"])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (65, ""), "{ran:?}");
    assert!(ran.talk.contains("its expiresAt is of type string"), "{ran:?}");
    // Neither form of a release writes to it.
    for end in [&["release", "a", "--force"][..], &["release", "a", "--value", "v"]] {
        let ran = run(tool_for(&database, end)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (65, ""), "{ran:?}");
        assert!(ran.talk.contains("its expiresAt is of type string"), "{ran:?}");
    }
    let count = database.collection::<Document>("locks").count_documents(doc! {}).await.unwrap();
    assert_eq!(count, 1, "it was deleted");
}
