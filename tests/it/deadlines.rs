//! The database holds a command for longer than its deadline: the caller is answered, and nothing stays locked.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::change_stream::event::OperationType;
use mongo_lease::{Error, LeaseManager, Released, Tuning};
use mongo_lease_testbed::{FailCommand, FailPointGuard, Proxy, Server, TestDatabase};

use crate::common::{builder, document, migrated};
use crate::lent::behind_a_proxy;
use crate::patience::{BUSY_MACHINE, bounded, written};

const WAIT: Duration = Duration::from_millis(500);
/// For how long the server holds a command; much longer than any call waits for it.
const HELD_FOR: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_acquire_that_the_server_holds_comes_back_at_its_deadline() {
    let (server, _database, leases) = setup().await;
    let fault = FailCommand::on(&["findAndModify"]).block_for(HELD_FOR);
    let guard = fault.enable(server.uri()).await;
    let started = Instant::now();
    let error = leases.acquire("a").wait(WAIT).await.unwrap_err();
    let waited = started.elapsed();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    assert!(waited >= WAIT && waited < WAIT + BUSY_MACHINE, "{waited:?}");
    guard.wait_times_entered(1).await;
    leave_on(guard);
}

#[tokio::test]
async fn asking_once_comes_back_after_two_attempts() {
    let (server, database, _) = setup().await;
    let leases = builder(&database)
        .tuning(Tuning::default().attempt_timeout(WAIT / 2))
        .build()
        .await
        .unwrap();
    let fault = FailCommand::on(&["findAndModify"]).block_for(HELD_FOR);
    let guard = fault.enable(server.uri()).await;
    let started = Instant::now();
    let error = leases.try_acquire("a").await.unwrap_err();
    let waited = started.elapsed();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(waited >= WAIT && waited < WAIT + BUSY_MACHINE, "{waited:?}");
    guard.wait_times_entered(1).await;
    leave_on(guard);
}

#[tokio::test]
async fn looks_and_pings_come_back_at_their_deadlines() {
    let (server, database, _) = setup().await;
    let leases = builder(&database)
        .tuning(Tuning::default().attempt_timeout(WAIT / 2))
        .build()
        .await
        .unwrap();
    let fault = FailCommand::on(&["find", "hello"]).block_for(HELD_FOR).app_name("looker");
    let client = server.client_with(|options| options.app_name = Some("looker".to_owned())).await;
    let looker = LeaseManager::builder(&database.through(&client))
        .tuning(Tuning::default().attempt_timeout(WAIT / 2));
    let looker = looker.build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let guard = fault.enable(server.uri()).await;
    let started = Instant::now();
    looker.get("a").await.unwrap_err();
    looker.ping().await.unwrap_err();
    let waited = started.elapsed();
    assert!(waited >= WAIT && waited < WAIT + WAIT / 2 + BUSY_MACHINE, "{waited:?}");
    leave_on(guard);
    assert!(lease.is_valid());
}

#[tokio::test]
async fn a_hanging_release_returns_and_continues_in_the_background() {
    let (server, database, _) = setup().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).release_timeout(WAIT).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let mut changes = database.collection::<Document>("locks").watch().await.unwrap();
    let requests = proxy.hold_requests_to("delete");
    let started = Instant::now();
    let error = lease.release().await.unwrap_err();
    let waited = started.elapsed();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(waited >= WAIT && waited < WAIT + BUSY_MACHINE, "{waited:?}");
    requests.release();
    written(&mut changes, OperationType::Delete).await;
}

/// The write arrives when no call waits for it any more.
#[tokio::test]
async fn what_a_command_wins_after_its_deadline_is_given_back() {
    let (server, database, _) = setup().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = through(&proxy, &database).await;
    let mut changes = database.collection::<Document>("locks").watch().await.unwrap();
    let requests = proxy.hold_requests_to("findAndModify");
    let error = leases.acquire("a").wait(WAIT).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    bounded(requests.held(1)).await;
    assert_eq!(document(&database, "a").await, None);
    requests.release();
    for wanted in [OperationType::Insert, OperationType::Delete] {
        written(&mut changes, wanted).await;
    }
}

/// The write was made in time, and its answer comes when no call waits for it any more.
#[tokio::test]
async fn a_grant_answered_after_the_deadline_is_given_back() {
    let (server, database, _) = setup().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = through(&proxy, &database).await;
    let mut changes = database.collection::<Document>("locks").watch().await.unwrap();
    let replies = proxy.hold_replies_to("findAndModify");
    let error = leases.acquire("a").wait(WAIT).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    assert!(document(&database, "a").await.is_some());
    replies.release();
    written(&mut changes, OperationType::Delete).await;
    assert_eq!(document(&database, "a").await, None);
}

/// Dropped while its command is under way: the write happens all the same, and is given back.
#[tokio::test]
async fn what_a_dropped_call_wins_is_given_back() {
    let (server, database, direct) = setup().await;
    let proxy = Proxy::start(server.mongod().address());
    let leases = through(&proxy, &database).await;
    for held_is_reply in [true, false] {
        let held = match held_is_reply {
            true => proxy.hold_replies_to("findAndModify"),
            false => proxy.hold_requests_to("findAndModify"),
        };
        let asking = tokio::spawn(leases.acquire("a").into_future());
        bounded(held.held(1)).await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        let mut changes = database.collection::<Document>("locks").watch().await.unwrap();
        held.release();
        written(&mut changes, OperationType::Delete).await;
        let lease = direct.try_acquire("a").await.unwrap().granted().expect("it is free");
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
}

/// Leaves the fail point on: switching it off would wait for its commands. It ends with its server, which ends with the
/// test.
fn leave_on(guard: FailPointGuard) {
    std::mem::forget(guard);
}

async fn setup() -> (Server, TestDatabase, LeaseManager) {
    let server = Server::start();
    let database = migrated(&server).await;
    let leases = builder(&database).build().await.unwrap();
    (server, database, leases)
}

async fn through(proxy: &Proxy, database: &TestDatabase) -> LeaseManager {
    let database = database.through(&proxy.client().await);
    LeaseManager::builder(&database).build().await.unwrap()
}
