//! Whether `doctor` sees that renewals fill the oplog.

use std::time::Duration;

use mongo_lease_security::ROOT_PASSWORD;
use mongo_lease_testbed::{Server, TestDatabase};
use mongodb::bson::{DateTime, doc};
use serde_json::json;

use super::{check, examined};
use crate::tool::{fresh, migrate, run, secured_server, soon, tool_at};

/// The rate is that of 1,000,000 leases with a ttl of 10 s; the control is one lease with a ttl of 30 s.
#[tokio::test]
async fn renewals_that_leave_a_short_oplog_are_noted() {
    let database = fresh().await;
    let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    let held = |name: &str, ttl_ms: i64| {
        doc! { "name": name, "value": "v", "expiresAt": expires_at,
        "grant": { "value": "v", "ttlMs": ttl_ms } }
    };
    let locks = database.collection::<mongodb::bson::Document>("locks");
    locks.insert_one(held("one", 30_000)).await.unwrap();
    let (_, report) = examined(Server::shared(), database.name(), &[]).await;
    let oplog = check(&report, "oplog");
    assert_eq!((&oplog["status"], &oplog["details"]["held"]), (&json!("ok"), &json!(1)));
    // A ttl of 1 ms makes one document count for 10,000 leases with 10 s.
    let many = (0..100).map(|number| held(&format!("many:{number}"), 1));
    locks.insert_many(many).await.unwrap();
    let (ran, report) = examined(Server::shared(), database.name(), &[]).await;
    let oplog = check(&report, "oplog");
    assert_eq!((ran.exit, &oplog["status"]), (0, &json!("note")), "{report}");
    assert!(oplog["details"]["window_secs"].as_f64().unwrap() < 86_400.0, "{report}");
}

/// A renewal moves its lease along the index on `expiresAt`. A count along that index is wrong nearly each time.
#[tokio::test]
async fn a_lease_that_is_renewed_meanwhile_counts_once() {
    const HELD: i32 = 3_000;
    let database = fresh().await;
    let locks = database.collection::<mongodb::bson::Document>("locks");
    let later = || DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    let held = (0..HELD).map(|number| {
        doc! { "name": number.to_string(), "value": "v", "expiresAt": later(),
        "grant": { "value": "v", "ttlMs": 30_000 } }
    });
    locks.insert_many(held).await.unwrap();
    let renewals = (0..4).map(|_| async {
        for number in (0..HELD).cycle() {
            let renewed = doc! { "$set": { "expiresAt": later() } };
            locks.update_one(doc! { "name": number.to_string() }, renewed).await.unwrap();
        }
    });
    let renewals = futures_util::future::join_all(renewals);
    let report = tokio::select! {
        _ = renewals => unreachable!("they go on for ever"),
        (_, report) = examined(Server::shared(), database.name(), &[]) => report,
    };
    assert_eq!(check(&report, "oplog")["details"]["held"], json!(HELD), "{report}");
}

/// The real bytes of a renewal, which `doctor` multiplies.
#[tokio::test]
async fn a_renewal_writes_as_many_bytes_as_doctor_counts() {
    const HELD: usize = 20;
    let database = fresh().await;
    let builder = mongo_lease::LeaseManager::builder(&database).ttl(Duration::from_secs(3));
    let manager = builder.build().await.unwrap();
    let mut held = Vec::new();
    for number in 0..HELD {
        held.push(manager.acquire(format!("report:{number:08}")).await.unwrap());
    }
    let local = database.client().database("local");
    let oplog = local.collection::<mongodb::bson::Document>("oplog.rs");
    let ours = doc! { "ns": format!("{}.locks", database.name()), "op": "u" };
    let sizes =
        doc! { "_id": null, "n": { "$sum": 1 }, "bytes": { "$avg": { "$bsonSize": "$$ROOT" } } };
    let renewed = async {
        loop {
            let stages = [doc! { "$match": ours.clone() }, doc! { "$group": sizes.clone() }];
            let mut found = oplog.aggregate(stages).await.unwrap();
            if found.advance().await.unwrap() {
                let found = found.deserialize_current().unwrap();
                if found.get_i32("n").unwrap() >= i32::try_from(2 * HELD).unwrap() {
                    return found.get_f64("bytes").unwrap();
                }
            }
        }
    };
    let bytes = soon("two renewals", renewed).await;
    let (_, report) = examined(Server::shared(), database.name(), &[]).await;
    let details = &check(&report, "oplog")["details"];
    assert_eq!(details["held"], json!(HELD), "{report}");
    // Each lease is renewed once a second.
    let counted = details["bytes_per_sec"].as_f64().unwrap() / 20.0;
    assert!((0.85..1.15).contains(&(bytes / counted)), "{bytes} bytes, and not {counted}");
    drop(held);
}

/// The control is a user who may read the size, on the same server.
#[tokio::test]
async fn an_oplog_whose_size_is_not_to_be_read_is_noted() {
    let server = secured_server();
    let root = server.uri_as("root", ROOT_PASSWORD);
    let client = mongodb::Client::with_uri_str(root).await.unwrap();
    let database = TestDatabase::of(&client);
    migrate(&database).await;
    let name = database.name();
    let service = doc! { "role": "readWrite", "db": name };
    let monitor = doc! { "role": "clusterMonitor", "db": "admin" };
    for (user, roles) in
        [("oplog_service", vec![service.clone()]), ("oplog_monitor", vec![service, monitor])]
    {
        server.admin(doc! { "createUser": user, "pwd": "user-word", "roles": roles }).await;
    }
    let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    let held = doc! { "name": "one", "value": "v", "expiresAt": expires_at,
    "grant": { "value": "v", "ttlMs": 30_000_i64 } };
    database.collection::<mongodb::bson::Document>("locks").insert_one(held).await.unwrap();
    let as_user = async |user: &str| {
        run(tool_at(&server.uri_as(user, "user-word"), name, &["doctor", "--json"])).await
    };
    let service = as_user("oplog_service").await;
    let report = service.json();
    let oplog = check(&report, "oplog");
    assert_eq!((service.exit, &oplog["status"]), (0, &json!("note")), "{report}");
    let message = oplog["message"].as_str().unwrap();
    assert!(message.starts_with("cannot be checked: "), "{report}");
    assert!(message.contains("not authorized"), "{report}");
    assert_eq!((&oplog["details"], &oplog["advice"]), (&json!({}), &json!(null)), "{report}");

    let monitor = as_user("oplog_monitor").await;
    let report = monitor.json();
    let oplog = check(&report, "oplog");
    assert_eq!((&oplog["status"], &oplog["details"]["held"]), (&json!("ok"), &json!(1)));
    for ran in [service, monitor] {
        assert!(!format!("{}{}", ran.data, ran.talk).contains("-word"), "{ran:?}");
    }
}
