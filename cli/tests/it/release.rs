//! `release`: by name and value, and by force.

use serde_json::json;

use super::tool::{fresh, leases, run, tool_for};

#[tokio::test]
async fn by_its_value_a_lease_is_released_and_by_another_it_is_not() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").await.unwrap();
    let wrong = run(tool_for(&database, &["release", "a", "--value", "wrong"])).await;
    assert_eq!(wrong.exit, 1, "{wrong:?}");
    assert!(wrong.data.contains("nothing was changed"), "{wrong:?}");
    assert!(manager.get("a").await.unwrap().is_some());
    let wrong = run(tool_for(&database, &["release", "a", "--value", "wrong", "--json"])).await;
    let expected = json!({ "name": "a", "status": "not_held", "owner": null, "value": "wrong" });
    assert_eq!((wrong.exit, wrong.json()), (1, expected));
    let right = run(tool_for(&database, &["release", "a", "--value", lease.value()])).await;
    assert_eq!((right.exit, right.data.as_str()), (0, "\"a\" is released\n"), "{right:?}");
    assert!(manager.get("a").await.unwrap().is_none());
}

#[tokio::test]
async fn by_force_whoever_holds_it_loses_it() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").await.unwrap();
    let ran = run(tool_for(&database, &["release", "a", "--force", "--json"])).await;
    let report = ran.json();
    assert_eq!((ran.exit, &report["status"]), (0, &json!("released")), "{ran:?}");
    assert_eq!(report["value"], json!(lease.value()));
    assert!(report["owner"].as_str().unwrap().starts_with("test@"), "{ran:?}");
    assert!(manager.get("a").await.unwrap().is_none());
    assert!(lease.renew().await.is_err(), "its holder is told");
    let again = run(tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!((again.exit, again.data.as_str()), (1, ""), "{again:?}");
    assert_eq!(again.talk, "nobody holds \"a\"\n");
    let again = run(tool_for(&database, &["release", "a", "--force", "--json"])).await;
    let expected = json!({ "name": "a", "status": "not_held", "owner": null, "value": null });
    assert_eq!((again.exit, again.json()), (1, expected));
}

#[tokio::test]
async fn a_release_by_force_compares_and_leaves_a_newcomer_alone() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let _lease = manager.acquire("a").await.unwrap();
    // Between its query and its release the lease goes to another holder.
    let server = mongo_lease_testbed::Server::shared();
    let address = server.uri().trim_start_matches("mongodb://").split('/').next().unwrap();
    let proxy = mongo_lease_testbed::Proxy::start(address);
    let holding = proxy.hold_requests_to("delete");
    let arguments = ["release", "a", "--force"];
    let command = super::tool::tool_at(&proxy.uri(), database.name(), &arguments);
    let running = super::tool::Running::start(command);
    holding.held(1).await;
    let value = manager.get("a").await.unwrap().unwrap().value.unwrap();
    manager.release("a", value).await.unwrap();
    let newcomer = manager.acquire("a").await.unwrap();
    holding.release();
    let ran = running.ended().await;
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.data.contains("nothing was changed"), "{ran:?}");
    newcomer.renew().await.unwrap();
}

#[tokio::test]
async fn a_document_without_a_value_is_left_to_a_person() {
    let database = fresh().await;
    let ever = mongodb::bson::DateTime::MAX;
    let odd = mongodb::bson::doc! { "name": "a", "value": 5, "expiresAt": ever };
    database.collection("locks").insert_one(odd).await.unwrap();
    let ran = run(tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (65, ""), "{ran:?}");
    assert!(ran.talk.contains("no value to compare"), "{ran:?}");
}
