//! Commands of unknown outcome: lost replies, and writes that no majority confirmed.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{LeaseManager, Released};
use mongo_lease_testbed::{FailCommand, Proxy, TestDatabase};

use crate::common::document;
use crate::lent::{LentServer, behind_a_proxy, lent_database, lent_setup};
use crate::patience::{BUSY_MACHINE, bounded};

/// A server with a proxy before it, and a manager that goes through the proxy.
struct Setup {
    _server: LentServer,
    database: TestDatabase,
    proxy: Proxy,
    leases: LeaseManager,
}

async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    Setup { _server: server, database, proxy, leases }
}

#[tokio::test]
async fn a_lost_reply_yields_one_grant_without_waiting_for_itself() {
    let setup = setup().await;
    // A call that waited for its own lease would take as long as its ttl, 30 s.
    let started = Instant::now();
    let lost = setup.proxy.lose_next_reply("findAndModify");
    let lease = setup.leases.acquire("a").await.unwrap();
    bounded(lost.lost()).await;
    assert!(started.elapsed() < BUSY_MACHINE, "{:?}", started.elapsed());
    assert!(lease.is_valid());

    let found = document(&setup.database, "a").await.unwrap();
    // The first attempt was granted, and the second has found that grant.
    assert_eq!(granted_to(&found), (lease.value(), 1, 2));
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert_eq!(document(&setup.database, "a").await, None);
}

#[tokio::test]
async fn asking_once_survives_a_lost_reply_too() {
    let setup = setup().await;
    let lost = setup.proxy.lose_next_reply("findAndModify");
    let lease = setup.leases.try_acquire("a").await.unwrap().granted().expect("it is free");
    bounded(lost.lost()).await;
    let found = document(&setup.database, "a").await.unwrap();
    assert_eq!(granted_to(&found), (lease.value(), 1, 2));
}

#[tokio::test]
async fn a_connection_closed_before_the_command_costs_one_attempt() {
    let (server, database, leases) = lent_setup().await;
    let fault = FailCommand::on(&["findAndModify"]).times(1).close_connection();
    let guard = fault.enable(server.uri()).await;
    let lease = leases.acquire("a").await.unwrap();
    assert_eq!(guard.disable().await, 1);
    let found = document(&database, "a").await.unwrap();
    assert_eq!(granted_to(&found), (lease.value(), 2, 1));
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_unknown_and_done() {
    let setup = setup().await;
    let lease = setup.leases.acquire("a").await.unwrap();
    let lost = setup.proxy.lose_next_reply("delete");
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    bounded(lost.lost()).await;
    assert_eq!(document(&setup.database, "a").await, None);
}

#[tokio::test]
async fn a_release_that_never_reached_the_server_is_sent_again() {
    let setup = setup().await;
    let lease = setup.leases.acquire("a").await.unwrap();
    let lost = setup.proxy.lose_next_request("delete");
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    bounded(lost.lost()).await;
    assert_eq!(document(&setup.database, "a").await, None);
}

#[tokio::test]
async fn a_write_concern_error_is_neither_a_grant_nor_a_refusal() {
    let (server, database, leases) = lent_setup().await;
    // Written three times, and each time without a confirmation by a majority.
    let fault = FailCommand::on(&["findAndModify"]).times(3).write_concern_error(64);
    let guard = fault.enable(server.uri()).await;
    let started = Instant::now();
    let lease = leases.acquire("a").await.unwrap();
    assert!(started.elapsed() < BUSY_MACHINE, "{:?}", started.elapsed());
    assert_eq!(guard.disable().await, 3);
    // The value was the same all the time. The fast attempts left the grant alone, and the full one found it.
    let found = document(&database, "a").await.unwrap();
    assert_eq!(granted_to(&found), (lease.value(), 1, 2));
    let first = lease.token().unwrap();

    let fault = FailCommand::on(&["delete"]).times(1).write_concern_error(64);
    let guard = fault.enable(server.uri()).await;
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    assert_eq!(guard.disable().await, 1);
    let again = leases.acquire("a").await.unwrap();
    assert!(again.token().unwrap() > first);
}

#[tokio::test]
async fn an_unconfirmed_write_is_no_grant_and_is_given_back() {
    let (server, _database, leases) = lent_setup().await;
    let fault = FailCommand::on(&["findAndModify"]).write_concern_error(64);
    let guard = fault.enable(server.uri()).await;
    let error = leases.acquire("a").wait(Duration::from_millis(500)).await.unwrap_err();
    assert!(matches!(error, mongo_lease::Error::WaitTimeout { .. }), "{error}");
    guard.disable().await;
    // Its ttl is 30 s: without the cleanup this would wait for that.
    let started = Instant::now();
    let lease = leases.acquire("a").await.unwrap();
    assert!(started.elapsed() < BUSY_MACHINE, "{:?}", started.elapsed());
    assert!(lease.is_valid());
}

/// The holder, the number of the attempt that was granted, and how often it was written.
fn granted_to(document: &Document) -> (&str, u32, i64) {
    let grant = document.get_document("grant").unwrap();
    let value = document.get_str("value").unwrap();
    assert_eq!(grant.get_str("value").ok(), Some(value));
    let (_call, attempt) = grant.get_str("id").unwrap().rsplit_once('.').unwrap();
    let writes = grant.get_i32("writes").map(i64::from).or_else(|_| grant.get_i64("writes"));
    (value, attempt.parse().unwrap(), writes.unwrap())
}
