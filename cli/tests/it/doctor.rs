//! `doctor`: it finds problems, says what to do, and changes nothing.

mod oplog;
mod replication;
mod role;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mongo_lease_testbed::{ReplicaSet, Server};
use mongodb::bson::{DateTime, doc};
use serde_json::{Value, json};

use super::tool::{Ran, fresh, leases, lent_server, migrate, run, soon, tool, tool_at, tool_for};

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {report}"))
}

async fn examined(server: &Server, database: &str, arguments: &[&str]) -> (Ran, Value) {
    let mut all = vec!["doctor", "--json"];
    all.extend(arguments);
    let ran = run(tool_at(server.uri(), database, &all)).await;
    let report = ran.json();
    (ran, report)
}

#[tokio::test]
async fn a_sound_database_has_no_problem() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["doctor"])).await;
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
    let name = database.name();
    let has_both = format!("ok       indexes          {name}.locks has both indexes\n");
    for part in [
        "ok       server           MongoDB ",
        &has_both,
        "ok       commands         accepted; a ping takes ",
        "note     members          127.0.0.1:",
        "ok       replication      a majority has the newest write after ",
        "ok       write concern    leases use majority; the default is majority too\n",
        "ok       clocks           127.0.0.1:",
        "ok       TTL monitor      it runs, one pass every 1 s\n",
        "note     history window   minSnapshotHistoryWindowInSeconds is 300\n",
        "note     transactions     transactionLifetimeLimitSeconds is 60, and a ttl 30s\n",
        "ok       oplog            no lease that is held is renewed\n",
        "ok       permits          no lease is held by several\n",
        "note     privileges       no user is logged in\n",
        "      index walks      the server skipped ",
    ] {
        assert!(ran.data.contains(part), "{part}: {ran:?}");
    }
}

#[tokio::test]
async fn the_json_keeps_its_keys() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["doctor", "--json"])).await;
    let report = ran.json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&report), ["status", "database", "collection", "checks"]);
    assert_eq!(report["status"], json!("note"));
    let names: Vec<_> = report["checks"].as_array().unwrap().iter().collect();
    let expected = [
        ("server", &["version", "topology", "max_wire_version"][..]),
        ("members", &["members", "write_majority"]),
        ("replication", &["lag_ms"]),
        ("indexes", &["problems", "notes"]),
        ("commands", &["ping_ms"]),
        ("privileges", &["user", "missing"]),
        ("write_concern", &["client", "default"]),
        ("clocks", &["members", "members_apart_ms", "max_clock_skew_ms"]),
        ("ttl_monitor", &["enabled", "sleep_secs", "left_behind"]),
        ("history_window", &["seconds"]),
        ("transactions", &["seconds", "ttl_ms"]),
        ("oplog", &["held", "max_bytes", "bytes_per_sec", "window_secs"]),
        ("permits", &["shared", "differing", "damaged"]),
        ("index_walks", &["entries", "deletes", "seconds"]),
    ];
    assert_eq!(names.len(), expected.len());
    for (found, (name, details)) in names.iter().zip(expected) {
        assert_eq!(keys(found), ["check", "status", "message", "advice", "details"]);
        assert_eq!(
            (&found["check"], keys(&found["details"])),
            (&json!(name), details.iter().map(|it| (*it).to_owned()).collect())
        );
    }
    let clock = &check(&report, "clocks")["details"]["members"][0];
    let apart = clock["ahead_ms"].as_i64().unwrap().abs();
    assert!(apart <= 1_000, "the same machine's clock: {report}");
}

#[tokio::test]
async fn transactions_that_last_no_longer_than_the_ttl_are_ok() {
    let database = fresh().await;
    let (long, short) = tokio::join!(
        examined(Server::shared(), database.name(), &["--ttl", "60s"]),
        examined(Server::shared(), database.name(), &["--ttl", "59s"]),
    );
    for (report, ttl, status) in [(long.1, "60s", "ok"), (short.1, "59s", "note")] {
        assert_eq!(check(&report, "transactions")["status"], json!(status), "{ttl}: {report}");
        assert_eq!(check(&report, "transactions")["details"]["seconds"], json!(60));
    }
}

#[tokio::test]
async fn indexes_that_are_missing_are_a_problem_and_stay_missing() {
    let database = Server::shared().database().await;
    let ran = run(tool_for(&database, &["doctor"])).await;
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.data.contains("problem  indexes          to do: create"), "{ran:?}");
    let advice = format!("> run `mongo-lease-migrate up --db {}", database.name());
    assert!(ran.data.contains(&advice), "{ran:?}");
    assert!(database.list_collection_names().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_monitor_that_is_off_and_what_it_leaves_behind_are_problems() {
    let server = lent_server();
    let set = async |is_on: bool, seconds: i32| {
        let set = doc! { "setParameter": 1, "ttlMonitorEnabled": is_on };
        server.admin(set).await;
        let window = "minSnapshotHistoryWindowInSeconds";
        server.admin(doc! { "setParameter": 1, window: seconds }).await;
    };
    set(false, 0).await;
    let database = server.database().await;
    migrate(&database).await;
    let (ran, report) = examined(&server, database.name(), &[]).await;
    assert_eq!(ran.exit, 1, "{ran:?}");
    let monitor = check(&report, "ttl_monitor");
    assert_eq!(
        (&monitor["status"], &monitor["message"]),
        (&json!("problem"), &json!("it is switched off"))
    );
    let window = check(&report, "history_window");
    assert_eq!((&window["status"], &window["details"]["seconds"]), (&json!("ok"), &json!(0)));
    let an_hour_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 3_600_000);
    let left = doc! { "name": "a", "value": "v", "expiresAt": an_hour_ago };
    database.collection("locks").insert_one(left).await.unwrap();
    let (_, report) = examined(&server, database.name(), &[]).await;
    assert_eq!(check(&report, "ttl_monitor")["details"]["left_behind"], json!(1));
    // The defaults, for the next test that has this server.
    set(true, 300).await;
}

/// The monitor has had no pass since: it is healthy, and so is everything else.
#[tokio::test]
async fn what_has_outlived_its_holder_is_no_problem() {
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    let builder = mongo_lease::LeaseManager::builder(&database).tombstones(true);
    let leases = builder.build().await.unwrap();
    leases.acquire("tombstone").await.unwrap().release().await.unwrap();
    let kept = leases.acquire("kept").hold_at_least(std::time::Duration::from_millis(1));
    kept.await.unwrap().release().await.unwrap();
    let (ran, report) = examined(&server, database.name(), &[]).await;
    let monitor = check(&report, "ttl_monitor");
    assert_eq!(monitor["details"]["left_behind"], json!(0), "{report}");
    assert_eq!((ran.exit, &monitor["status"]), (0, &json!("ok")), "{report}");
}

/// Deleted entries sort behind all new names, and each release without a tombstone walks over them.
#[tokio::test]
async fn doctor_recommends_tombstones_only_where_releases_walk() {
    const DELETED: usize = 5_000;
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    let dead = |number: usize| doc! { "name": format!("z:{number:05}"), "value": "v", "n": 1 };
    let locks = database.collection::<mongodb::bson::Document>("locks");
    locks.insert_many((0..DELETED).map(dead)).await.unwrap();
    locks.delete_many(doc! { "n": 1 }).await.unwrap();
    for (tombstones, status) in [(false, "note"), (true, "ok")] {
        let builder = mongo_lease::LeaseManager::builder(&database).tombstones(tombstones);
        let manager = builder.build().await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = tokio::spawn(async move {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                number += 1;
                let lease = manager.acquire(format!("a:{number}")).await.unwrap();
                lease.release().await.unwrap();
            }
        });
        let (_, report) = examined(&server, database.name(), &[]).await;
        stop.store(true, Ordering::Relaxed);
        work.await.unwrap();
        let walks = check(&report, "index_walks");
        assert_eq!(walks["status"], json!(status), "{report}");
        let advice = walks["advice"].as_str().unwrap_or_default();
        assert_eq!(advice.contains("tombstones(true)"), !tombstones, "{report}");
    }
}

/// It breaks nothing, but an operator may want to know.
#[tokio::test]
async fn a_unique_index_on_value_is_noted() {
    let database = fresh().await;
    let index = doc! { "key": { "value": 1 }, "name": "value_1", "unique": true };
    let command = doc! { "createIndexes": "locks", "indexes": [index] };
    database.run_command(command).await.unwrap();
    let ran = run(tool_for(&database, &["doctor", "--json"])).await;
    let report = ran.json();
    let indexes = check(&report, "indexes");
    assert_eq!((ran.exit, &indexes["status"]), (0, &json!("note")), "{report}");
    assert!(indexes["advice"].as_str().unwrap().contains("`value_1` on `value` is unique"));
}

#[tokio::test]
async fn a_write_concern_of_one_is_noted() {
    let database = fresh().await;
    let uri = format!("{}&w=1", Server::shared().uri());
    let ran = run(tool_at(&uri, database.name(), &["doctor", "--json"])).await;
    let report = ran.json();
    let concern = check(&report, "write_concern");
    assert_eq!((ran.exit, &concern["status"]), (0, &json!("note")), "{ran:?}");
    assert_eq!(concern["details"]["client"], json!("w: 1"));
    assert!(concern["message"].as_str().unwrap().contains("the connection string's is w: 1"));
}

#[tokio::test]
async fn a_standalone_server_is_noted() {
    let server = Server::shared_standalone();
    let database = server.database().await;
    migrate(&database).await;
    let (ran, report) = examined(server, database.name(), &[]).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let kind = check(&report, "server");
    assert_eq!(
        (&kind["status"], &kind["details"]["topology"]),
        (&json!("note"), &json!("standalone"))
    );
    assert!(kind["advice"].as_str().unwrap().contains("no change streams"));
}

#[tokio::test]
async fn a_member_that_is_down_is_noted_and_its_clock_is_unknown() {
    let set = ReplicaSet::start();
    let database = set.database().await;
    migrate(&database).await;
    let command = |uri: &str| tool_at(uri, database.name(), &["doctor", "--json"]);
    let report = run(command(&set.uri())).await.json();
    assert_eq!(check(&report, "members")["status"], json!("ok"), "{report}");
    let clocks = check(&report, "clocks");
    assert_eq!(clocks["status"], json!("ok"), "{report}");
    assert_eq!(clocks["details"]["members"].as_array().unwrap().len(), 3);
    let secondary = (set.primary().await + 1) % 3;
    set.node(secondary).kill();
    let down = async {
        loop {
            let report = run(command(&set.uri())).await.json();
            if check(&report, "members")["status"] == json!("note") {
                return report;
            }
        }
    };
    let report = soon("the others notice", down).await;
    let clocks = check(&report, "clocks");
    assert_eq!(clocks["status"], json!("note"), "{report}");
    assert!(
        check(&report, "members")["advice"].as_str().unwrap().contains("one more member with data")
    );
}

#[tokio::test]
async fn privileges_that_are_lacking_are_named_without_the_password() {
    let server = Server::builder().standalone().argument("--auth").start();
    let root = doc! { "createUser": "root", "pwd": "root-word", "roles": ["root"] };
    server.admin(root).await;
    let address = server.mongod().address();
    let uri = |credentials: &str| format!("mongodb://{credentials}@{address}/app?authSource=admin");
    let as_root = uri("root:root-word");
    let client = mongodb::Client::with_uri_str(&as_root).await.unwrap();
    migrate(&client.database("app")).await;
    for (user, role) in [("reader", "read"), ("writer", "readWrite")] {
        let role = doc! { "role": role, "db": "app" };
        let user = doc! { "createUser": user, "pwd": "user-word", "roles": [role] };
        client.database("admin").run_command(user).await.unwrap();
    }
    let examined = async |credentials: &str| {
        run(tool(&["doctor", "--json", "--uri", &uri(credentials)])).await
    };
    let reader = examined("reader:user-word").await;
    assert_eq!(reader.exit, 1, "{reader:?}");
    let report = reader.json();
    let privileges = check(&report, "privileges");
    assert_eq!(privileges["details"]["missing"], json!(["insert", "update", "remove"]));
    assert_eq!(check(&report, "commands")["status"], json!("problem"));
    assert_eq!(check(&report, "history_window")["status"], json!("note"), "not to be seen");

    let writer = examined("writer:user-word").await;
    assert_eq!(writer.exit, 0, "{writer:?}");
    let report = writer.json();
    assert_eq!(check(&report, "privileges")["status"], json!("ok"));
    assert_eq!(check(&report, "privileges")["details"]["user"], json!("writer@admin"));

    // A user who may read may run the checks, and nothing else.
    let client = mongodb::Client::with_uri_str(&uri("writer:user-word")).await.unwrap();
    let held = leases(&client.database("app")).await.acquire("a").await.unwrap();
    let list = run(tool(&["ls", "--uri", &uri("reader:user-word")])).await;
    assert_eq!((list.exit, list.data.lines().count()), (0, 2), "{list:?}");
    let show = run(tool(&["show", "a", "--uri", &uri("reader:user-word")])).await;
    assert!(show.exit == 0 && show.data.contains(held.value()), "{show:?}");
    let release = ["release", "a", "--force", "--uri", &uri("reader:user-word")];
    let release = run(tool(&release)).await;
    assert_eq!((release.exit, release.data.as_str()), (69, ""), "{release:?}");
    assert!(release.talk.contains("not authorized"), "{release:?}");
    assert!(held.is_valid());

    let wrong = examined("writer:wrong-word").await;
    assert_eq!(wrong.exit, 69, "{wrong:?}");
    for ran in [reader, writer, list, show, release, wrong] {
        let all = format!("{}{}", ran.data, ran.talk);
        assert!(!all.contains("-word"), "{ran:?}");
    }
}
