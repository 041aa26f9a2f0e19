//! `shutdown()` ends everything, within its bound, and reports what it could not end.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Lease, LeaseManager, LostReason, Released, Tuning};
use mongo_lease_testbed::FailCommand;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::both::check;
use crate::common::{TryOnce, builder, setup};
use crate::lent::{lent_database, lent_setup};
use crate::patience::{BUSY_MACHINE, Listener, PATIENCE, locks, soon, until};

async fn hold(leases: &LeaseManager, how_many: usize) -> Vec<Lease> {
    let mut asked = JoinSet::new();
    for number in 0..how_many {
        let acquire = leases.acquire(format!("lease:{number}"));
        asked.spawn(async move { acquire.await.unwrap() });
    }
    asked.join_all().await
}

/// Calls that wait for held leases.
fn wait(leases: &LeaseManager, how_many: usize) -> JoinSet<Error> {
    let mut waiting = JoinSet::new();
    for number in 0..how_many {
        let acquire = leases.acquire(format!("lease:{}", number % 10)).wait_forever();
        waiting.spawn(async move { acquire.await.unwrap_err() });
    }
    waiting
}

async fn assert_all_are_told(held: &[Lease]) {
    for lease in held {
        assert_eq!(soon("its holder is told", lease.lost()).await, LostReason::Released);
        assert!(!lease.is_valid());
        assert!(lease.token().is_err());
    }
}

#[tokio::test]
async fn a_thousand_leases_and_their_waiters_are_ended() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).tuning(Tuning::default().max_in_flight(20));
    let leases = leases.shutdown_timeout(2 * PATIENCE).build().await.unwrap();
    let held = hold(&leases, 1_000).await;
    let before = server.command_counts().await.find_and_modify;
    let waiting = wait(&leases, 1_000);
    // They wait in ten local queues, and the first of each makes attempts.
    let asked =
        async || (server.command_counts().await.find_and_modify >= before + 10).then_some(());
    until("they wait", asked).await;

    let report = soon("the shutdown", leases.shutdown()).await;
    assert_eq!(report.released, 1_000);
    assert_eq!(report.left_to_expire, Vec::<String>::new());
    assert_eq!(report.tasks_left, 0);
    assert_all_are_told(&held).await;
    for error in soon("the waiters end", waiting.join_all()).await {
        assert!(matches!(error, Error::ShutDown), "{error}");
    }
    // A lease that was handed off to a leaving waiter has ended, and the TTL monitor removes its document.
    let is_held = doc! { "value": { "$not": { "$regex": "^released:" } } };
    let anybodys = doc! { "$or": [is_held, { "queue.0": { "$exists": true } }] };
    assert_eq!(locks(&database).count_documents(anybodys).await.unwrap(), 0);
}

#[tokio::test]
async fn with_the_database_stopped_shutdown_reports_within_the_bound() {
    const BOUND: Duration = Duration::from_secs(1);
    let (server, database) = lent_database().await;
    let leases =
        builder(&database).shutdown_timeout(BOUND).tuning(Tuning::default().max_in_flight(20));
    let leases = leases.build().await.unwrap();
    let held = hold(&leases, 1_000).await;
    let waiting = wait(&leases, 1_000);

    server.mongod().pause();
    let started = Instant::now();
    let report = soon("the shutdown", leases.shutdown()).await;
    assert!(started.elapsed() < BOUND + BUSY_MACHINE, "{:?}", started.elapsed());
    assert_eq!(report.released, 0);
    assert_eq!(report.left_to_expire.len(), 1_000);
    assert!(report.tasks_left > 0, "there are commands that nobody has answered");
    assert_all_are_told(&held).await;
    for error in soon("the waiters end", waiting.join_all()).await {
        assert!(matches!(error, Error::ShutDown), "{error}");
    }
    server.mongod().resume();
}

#[tokio::test]
async fn after_a_shutdown_every_call_fails_with_shut_down() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let clone = leases.clone();
    assert_eq!(clone.shutdown().await.released, 1);

    let is_shut_down = |error: Error| assert!(matches!(error, Error::ShutDown), "{error}");
    is_shut_down(leases.acquire("a").await.unwrap_err());
    is_shut_down(leases.try_acquire("a").await.unwrap_err());
    is_shut_down(leases.get("a").await.unwrap_err());
    is_shut_down(leases.ping().await.unwrap_err());
    is_shut_down(leases.release("a", "value").await.unwrap_err());
    drop(lease);
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn it_can_be_called_again() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _lease = leases.acquire("a").await.unwrap();
        assert_eq!(leases.shutdown().await.released, 1);
        let again = leases.shutdown().await;
        assert_eq!((again.released, again.left_to_expire.len(), again.tasks_left), (0, 0, 0));
    })
    .await;
}

/// A caller that dropped its shutdown, and calls again, gets everything else ended.
#[tokio::test]
async fn a_shutdown_that_was_dropped_goes_on_with_the_next_call() {
    let (server, database, leases) = lent_setup().await;
    let held = hold(&leases, 5).await;
    // Its first attempt fails, and it is dropped before there is a second.
    let failing = FailCommand::on(&["delete"]).times(1).close_connection();
    let failing = failing.block_for(Duration::from_millis(300)).enable(server.uri()).await;
    tokio::select! {
        report = leases.shutdown() => panic!("{report:?}"),
        () = failing.wait_times_entered(1) => {}
    }
    assert_all_are_told(&held).await;
    assert!(matches!(leases.try_acquire("b").await.unwrap_err(), Error::ShutDown));

    let report = leases.shutdown().await;
    assert_eq!(report.released, 5);
    assert_eq!(report.left_to_expire, Vec::<String>::new());
    assert_eq!(report.tasks_left, 0);
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Calls that are on their way when the shutdown begins: each ends as `ShutDown`, and none leaves a lease.
#[tokio::test]
async fn what_is_granted_in_the_middle_of_a_shutdown_is_given_back() {
    let (server, database, leases) = lent_setup().await;
    let slow = FailCommand::on(&["findAndModify", "update"]).block_for(Duration::from_secs(1));
    let slow = slow.enable(server.uri()).await;
    let mut asked = JoinSet::new();
    for number in 0..20 {
        let (acquire, once) =
            (leases.acquire(format!("a:{number}")), leases.acquire(format!("b:{number}")));
        asked.spawn(async move { acquire.await.map(drop) });
        asked.spawn(async move { once.try_once().await.map(drop) });
    }
    // Two alone, and all later ones together.
    slow.wait_times_entered(3).await;
    let report = leases.shutdown().await;
    for result in soon("the calls end", asked.join_all()).await {
        assert!(matches!(result, Err(Error::ShutDown)), "{result:?}");
    }
    assert_eq!((report.released, report.tasks_left), (0, 0));
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// A call without a wait does not wait for a database that hangs when its manager has been shut down.
#[tokio::test]
async fn a_call_that_asks_once_ends_with_the_shutdown() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).shutdown_timeout(Duration::from_millis(500));
    let leases = leases
        .ttl(8 * PATIENCE)
        .tuning(Tuning::default().attempt_timeout(2 * PATIENCE))
        .build()
        .await
        .unwrap();
    server.mongod().pause();
    let asking = leases.clone();
    let asking = tokio::spawn(async move { asking.try_acquire("a").await.map(drop) });
    tokio::task::yield_now().await;
    leases.shutdown().await;
    let result = soon("the call ends", asking).await.unwrap();
    assert!(matches!(result, Err(Error::ShutDown)), "{result:?}");
    server.mongod().resume();
}

#[tokio::test]
async fn hold_at_least_outlasts_a_shutdown() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _lease = leases.acquire("a").hold_at_least(Duration::from_secs(20)).await.unwrap();
        let report = leases.shutdown().await;
        assert_eq!((report.released, report.tasks_left), (1, 0));
        let others = backend.manager().await;
        let taken = others.get("a").await.unwrap().unwrap();
        assert!(taken.remaining.unwrap() <= Duration::from_secs(20));
    })
    .await;
}

#[tokio::test]
async fn without_a_shutdown_everything_ends_with_the_last_handle() {
    check(async |backend| {
        let leases = backend.manager().await;
        let mut events = Listener::of(&leases);
        let lease = leases.acquire("a").ttl(Duration::from_secs(1)).await.unwrap();
        drop(leases);
        // A lease keeps its renewals alive; the last lease ends them.
        events.renewals("a", 2).await;
        assert!(lease.is_valid());
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        backend.until_nothing_is_left().await;
    })
    .await;
}
