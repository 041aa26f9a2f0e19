//! Orderly and abrupt ends of the service and of its clients.

use std::io::Write;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::{LineProcess, Server, TestDatabase, command};
use mongo_lease_tower::http::{Method, StatusCode};
use serde_json::json;

use crate::client::Client;
use crate::service::{Service, setup, soon, until_held};

/// Set in the process that plays a client which is killed.
const VICTIM: &str = "AXUM_SERVICE_TEST_VICTIM";

async fn documents(database: &TestDatabase) -> u64 {
    let locks = database.collection::<Document>("locks");
    locks.count_documents(doc! {}).await.expect("a count")
}

/// Repeats the request until the answer has this status.
async fn until(client: &Client, address: &str, path: &str, status: StatusCode) {
    let asking = async { while client.ask(Method::POST, address, path).await.status != status {} };
    soon(path, asking).await;
}

#[tokio::test]
async fn the_order_to_end_lets_requests_end_and_releases_everything() {
    let (database, service) = setup(Duration::from_secs(30)).await;
    let client = Client::new();
    let address = service.address.clone();
    for key in ["a", "b", "c"] {
        let taken = client.ask(Method::POST, &address, &format!("/lock/{key}/me")).await;
        assert_eq!(taken.status, StatusCode::OK);
    }
    // A lock that its client has released is not counted again.
    assert_eq!(client.ask(Method::DELETE, &address, "/lock/b/me").await.status, StatusCode::OK);
    let paying = tokio::spawn({
        let (client, address) = (client.clone(), address.clone());
        async move { client.ask(Method::POST, &address, "/invoices/1/payment?work_ms=1000").await }
    });
    until_held(&database, "invoice:1").await;
    service.terminate();
    let paid = soon("the payment", paying).await.unwrap();
    assert_eq!(paid.status, StatusCode::OK, "it was under way: {paid:?}");
    let (status, said) = service.end().await;
    assert!(status.success(), "{status}");
    assert_eq!(said.last().map(String::as_str), Some("Done: 2 leases released."));
    assert_eq!(documents(&database).await, 0);
    let refused = client.try_ask(Method::GET, &address, "/", None).await;
    assert!(refused.is_err(), "{refused:?}");
}

/// `docs/deploy/deployment.yaml` sets this variable.
#[tokio::test]
async fn a_request_that_outlasts_the_drain_time_is_cut_off() {
    let database = Server::shared().database().await;
    let ttl = Duration::from_secs(300);
    let service = Service::start_with(&database, ttl, &[("DRAIN_SECONDS", "1")]).await;
    let (client, address) = (Client::new(), service.address.clone());
    let paying = tokio::spawn(async move {
        // Longer than anything here waits.
        let path = "/invoices/1/payment?work_ms=300000";
        client.try_ask(Method::POST, &address, path, None).await
    });
    until_held(&database, "invoice:1").await;
    let told = Instant::now();
    service.terminate();
    let (status, said) = soon("its end", service.end()).await;
    assert!(status.success(), "{status}");
    assert!(told.elapsed() >= Duration::from_secs(1), "{:?}", told.elapsed());
    assert_eq!(said.last().map(String::as_str), Some("Done: 1 leases released."));
    assert_eq!(documents(&database).await, 0);
    // With an answer or without one.
    let _ended = soon("the request", paying).await.unwrap();
}

/// A client process is killed during a payment, while it holds a lock.
///
/// The payment's lease is free as soon as the connection has broken. The lock, which nobody renews, is free after its
/// ttl: that a lock is refused until then is shown in `endpoints`, where its ttl may be long.
#[tokio::test]
async fn a_killed_client_blocks_others_for_at_most_its_ttl() {
    // Longer than anything here waits.
    const PAYMENT: &str = "/invoices/1/payment?work_ms=300000";
    if let Ok(address) = std::env::var(VICTIM) {
        let client = Client::new();
        let taken = client.ask(Method::POST, &address, "/lock/job/victim?ttl_ms=1000").await;
        writeln!(std::io::stdout(), "\nvictim> {}", taken.status).unwrap();
        client.ask(Method::POST, &address, PAYMENT).await;
        return;
    }
    // For no ttl is waited.
    let (database, service) = setup(Duration::from_secs(300)).await;
    let address = service.address.as_str();
    let mut program = command(std::env::current_exe().unwrap());
    program
        .args(["--exact", "ends::a_killed_client_blocks_others_for_at_most_its_ttl"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(VICTIM, address);
    let mut victim = LineProcess::start_without_input(program).unwrap();
    let said = |line: &str| line.strip_prefix("victim> ").map(str::to_owned);
    assert_eq!(victim.line_with(said).await.unwrap(), "200 OK");
    let client = Client::new();
    until_held(&database, "invoice:1").await;
    let mine = "/invoices/1/payment?work_ms=0";
    assert_eq!(client.ask(Method::POST, address, mine).await.status, StatusCode::CONFLICT);

    victim.kill().await.unwrap();
    // The broken connection is noticed.
    until(&client, address, mine, StatusCode::OK).await;
    until(&client, address, "/lock/job/heir", StatusCode::OK).await;
}

#[tokio::test]
async fn a_lock_that_is_not_renewed_runs_out() {
    let (_database, service) = setup(Duration::from_secs(30)).await;
    let address = service.address.as_str();
    let client = Client::new();
    let taken = client.ask(Method::POST, address, "/lock/job/me?ttl_ms=500").await;
    assert_eq!(taken.status, StatusCode::OK);
    until(&client, address, "/lock/job/you", StatusCode::OK).await;
    let late = client.try_ask(Method::PUT, address, "/lock/job/me", Some(&taken.body["lease"]));
    let late = late.await.unwrap();
    assert_eq!((late.status, &late.body["code"]), (StatusCode::CONFLICT, &json!("lost")));
}
