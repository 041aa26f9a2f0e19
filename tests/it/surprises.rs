//! Surprises that belong to no other module. The list of all is `README.md` beside this file.

use mongo_lease::Released;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::FailCommand;

use crate::common::{builder, granted, handed_on};
use crate::lent::lent_setup;

/// The next acquires fail as if two upserts had raced.
fn fault(times: u32) -> FailCommand {
    const DUPLICATE_KEY: i32 = 11_000;
    let about = doc! { "keyPattern": { "name": 1 }, "keyValue": { "name": "a" } };
    let fault = FailCommand::on(&["findAndModify"]).times(times).error_code(DUPLICATE_KEY);
    fault.with("errorExtraInfo", about)
}

#[tokio::test]
async fn a_duplicate_key_error_is_asked_again_and_nobody_sees_it() {
    let (server, _database, leases) = lent_setup().await;
    // As an error of the command, as findAndModify reports it.
    let guard = fault(2).enable(server.uri()).await;
    let lease = leases.acquire("a").await.unwrap();
    assert_eq!(guard.disable().await, 2);
    let guard = fault(1).enable(server.uri()).await;
    // Nor is it taken for a refusal.
    let _other = granted(&leases, "b").await;
    assert_eq!(guard.disable().await, 1);
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_life_of_leases_changes_no_parameter_of_the_server() {
    let (server, database, leases) = lent_setup().await;
    let parameters = async || -> Document {
        let mut all = server.admin(doc! { "getParameter": "*" }).await;
        for of_the_reply in ["ok", "operationTime", "$clusterTime"] {
            all.remove(of_the_reply);
        }
        all
    };
    let before = parameters().await;
    assert!(before.contains_key("ttlMonitorSleepSecs") && before.len() > 100);
    let holder = builder(&database).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    lease.renew().await.unwrap();
    handed_on(lease, &leases).await.release().await.unwrap();
    holder.shutdown().await;
    leases.shutdown().await;
    assert_eq!(parameters().await, before);
}
