//! Surprises that belong to no other module.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Election, Error, Released};
use mongo_lease_testbed::FailCommand;

use crate::common::{assert_done, builder, granted, handed_on};
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

/// Codes that services have met: the majority is not there yet, a key of the cluster's clock is missing, a router has
/// waited too long, no member for a read, too many sessions, too little memory, a full disk, a killed plan.
const PASSING: [i32; 8] = [134, 211, 202, 133, 261, 146, 14_031, 175];

#[tokio::test]
async fn a_failure_that_nobody_has_named_passes_within_the_wait() {
    let (server, _database, leases) = lent_setup().await;
    for code in PASSING {
        let failing = FailCommand::on(&["findAndModify"]).times(2).error_code(code);
        let guard = failing.enable(server.uri()).await;
        let lease = leases.acquire(code.to_string()).await;
        let lease = lease.unwrap_or_else(|error| panic!("{code}: {error}"));
        assert_eq!(guard.disable().await, 2, "{code}");
        let failing = FailCommand::on(&["delete"]).times(2).error_code(code);
        let guard = failing.enable(server.uri()).await;
        assert_done(lease.release().await.unwrap(), code);
        assert_eq!(guard.disable().await, 2, "{code}");
    }
    let failing = FailCommand::on(&["findAndModify"]).times(2).error_code(PASSING[0]);
    let guard = failing.enable(server.uri()).await;
    Election::new(&leases, "leader").run(async |_| {}).await.expect("a term");
    assert_eq!(guard.disable().await, 2);
}

#[tokio::test]
async fn a_failure_that_nobody_has_named_leaves_a_retry_open() {
    let (server, _database, leases) = lent_setup().await;
    let mut answered = 0;
    for code in PASSING {
        let failing = FailCommand::on(&["findAndModify"]).error_code(code);
        let guard = failing.enable(server.uri()).await;
        let wait = Duration::from_millis(300);
        let error = leases.acquire(code.to_string()).wait(wait).await.unwrap_err();
        guard.disable().await;
        let Error::WaitTimeout { source, .. } = &error else { panic!("{error}") };
        assert!(error.is_transient(), "{code}: {error}");
        // On a busy machine the time may be over before the first answer.
        let Some(source) = source else { continue };
        assert!(matches!(**source, Error::Unknown { .. }), "{code}: {error}");
        answered += 1;
    }
    assert!(answered > 0, "no code was ever answered");
    // A sure refusal ends the wait.
    let guard = FailCommand::on(&["findAndModify"]).error_code(13).enable(server.uri()).await;
    let error = leases.acquire("refused").await.unwrap_err();
    assert!(matches!(error, Error::MongoDb(_)) && !error.is_transient(), "{error}");
    guard.disable().await;
}
