//! `shutdown()` ends everything, within its bound, and reports what it could not end.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::{Error, Lease, LeaseManager, LostReason, MemoryStore};
use mongo_lease_testbed::Server;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::both::check;
use crate::common::migrated;
use crate::patience::{pass, soon};
use crate::permits::{granted, queued_by};

async fn hold(leases: &LeaseManager, how_many: usize) -> Vec<Lease> {
    let acquire = |number| leases.acquire(format!("lease:{number}")).into_future();
    try_join_all((0..how_many).map(acquire)).await.unwrap()
}

async fn assert_all_are_told(held: &[Lease]) {
    for lease in held {
        assert_eq!(soon("its holder is told", lease.lost()).await, LostReason::Released);
        assert!(!lease.is_valid());
        assert!(lease.token().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_database_stopped_shutdown_reports_within_the_bound() {
    const BOUND: Duration = Duration::from_secs(1);
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).shutdown_timeout(BOUND).build().await.unwrap();
    // A thousand leases, and a thousand calls that wait for ten of them.
    let held = hold(&leases, 1_000).await;
    let mut waiting = JoinSet::new();
    for number in 0..1_000 {
        let acquire = leases.acquire(format!("lease:{}", number % 10)).wait_forever();
        waiting.spawn(async move { acquire.await.unwrap_err() });
    }
    let _hang = store.hang();
    let asked = Instant::now();
    let report = leases.shutdown().await;
    assert!(asked.elapsed() <= BOUND + Duration::from_millis(5), "{:?}", asked.elapsed());
    assert_eq!((report.released, report.left_to_expire.len()), (0, 1_000));
    assert!(report.tasks_left > 0, "there are commands that nobody has answered");
    assert_all_are_told(&held).await;
    for error in soon("the waiters end", waiting.join_all()).await {
        assert!(matches!(error, Error::ShutDown), "{error}");
    }
}

#[tokio::test]
async fn after_a_shutdown_every_call_fails_with_shut_down() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let free = leases.acquire("free").await.unwrap();
        let _waited = leases.acquire("waited").await.unwrap();
        let kept = leases.acquire("kept").hold_at_least(Duration::from_secs(20)).await.unwrap();
        let waits = queued_by(&others, |leases| leases.acquire("waited").wait_forever()).await;
        let report = leases.clone().shutdown().await;
        assert_eq!((report.released, report.tasks_left), (3, 0));
        assert!(report.left_to_expire.is_empty());
        assert_all_are_told(&[free, kept]).await;

        let is_shut_down = |error: Error| assert!(matches!(error, Error::ShutDown), "{error}");
        is_shut_down(leases.acquire("a").await.unwrap_err());
        is_shut_down(leases.try_acquire("a").await.unwrap_err());
        is_shut_down(leases.get("a").await.unwrap_err());
        is_shut_down(leases.ping().await.unwrap_err());
        is_shut_down(leases.release("a", "value").await.unwrap_err());
        let again = leases.shutdown().await;
        assert_eq!((again.released, again.left_to_expire.len(), again.tasks_left), (0, 0, 0));

        assert!(others.try_acquire("free").await.unwrap().is_granted());
        assert!(granted(waits).await.is_valid());
        let kept = others.get("kept").await.unwrap().expect("it outlasts the shutdown");
        assert!(kept.remaining.unwrap() <= Duration::from_secs(20));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_was_dropped_goes_on_with_the_next_call() {
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let held = hold(&leases, 5).await;
    // It is dropped while nothing is answered.
    let hang = store.hang();
    tokio::select! {
        report = leases.shutdown() => panic!("{report:?}"),
        () = pass(Duration::from_secs(3)) => {}
    }
    assert_all_are_told(&held).await;
    assert!(matches!(leases.try_acquire("b").await.unwrap_err(), Error::ShutDown));
    assert_eq!(store.leases_in_use(), 5);

    drop(hang);
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.tasks_left), (5, 0));
    assert_eq!(report.left_to_expire, Vec::<String>::new());
    assert_eq!(store.leases_in_use(), 0);
}

/// Calls that are on their way when the shutdown begins: each ends as `ShutDown`, and none leaves a lease.
#[tokio::test(start_paused = true)]
async fn what_is_granted_in_the_middle_of_a_shutdown_is_given_back() {
    for answered_after in [1, 2_000].map(Duration::from_millis) {
        let store = MemoryStore::new();
        let leases = LeaseManager::in_memory(&store).build().await.unwrap();
        let hang = store.hang();
        let mut asked = JoinSet::new();
        for number in 0..20 {
            asked.spawn(leases.acquire(format!("a:{number}")).into_future());
            asked.spawn(leases.acquire(format!("b:{number}")).wait(Duration::ZERO).into_future());
        }
        // Some are sent alone, and all later ones together.
        pass(Duration::from_millis(500)).await;
        let answers = async {
            pass(answered_after).await;
            drop(hang);
        };
        let (report, ()) = tokio::join!(leases.shutdown(), answers);
        for result in soon("the calls end", asked.join_all()).await {
            assert!(matches!(result, Err(Error::ShutDown)), "{result:?}");
        }
        assert_eq!((report.released, report.tasks_left), (0, 0));
        // Each lease that was granted is given back.
        assert_eq!(store.leases_in_use(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_once_ends_with_the_shutdown() {
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).shutdown_timeout(Duration::from_millis(500));
    let leases = leases.build().await.unwrap();
    let _hang = store.hang();
    let asking = tokio::spawn(leases.acquire("a").wait(Duration::ZERO).into_future());
    pass(Duration::from_millis(10)).await;
    leases.shutdown().await;
    let result = soon("the call ends", asking).await.unwrap();
    assert!(matches!(result, Err(Error::ShutDown)), "{result:?}");
}

/// The other order than the documented one. The driver waits for the manager's stream, so its shutdown ends behind
/// ours, unless it is an immediate one.
#[tokio::test]
async fn a_client_that_is_shut_down_first_delays_no_shutdown_beyond_its_bound() {
    const BOUND: Duration = Duration::from_secs(1);
    for immediate in [true, false] {
        let database = migrated(Server::shared()).await;
        let client = Server::shared().client().await;
        let through = LeaseManager::builder(&client.database(database.name()));
        let leases = through.shutdown_timeout(BOUND).build().await.unwrap();
        let _held = leases.acquire("a").await.unwrap();
        let waiting = queued_by(&leases, |leases| leases.acquire("a").wait_forever()).await;
        let closing = tokio::spawn(client.shutdown().immediate(immediate).into_future());
        if immediate {
            soon("the client is shut down", &mut pin!(closing)).await.unwrap();
            let report = soon("the manager's shutdown", leases.shutdown()).await;
            assert_eq!((report.released, report.left_to_expire), (0, vec!["a".to_owned()]));
        } else {
            let report = soon("the manager's shutdown", leases.shutdown()).await;
            assert_eq!((report.released, report.left_to_expire), (1, Vec::new()));
            soon("the client is shut down", closing).await.unwrap();
        }
        let ended = soon("the waiting call ends", waiting).await.unwrap().unwrap_err();
        // With the client gone, the call may know before the manager shuts down.
        assert!(immediate || matches!(ended, Error::ShutDown), "{ended}");
    }
}
