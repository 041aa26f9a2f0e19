//! Every wait ends at its deadline, and a stream in a small pool delays no command.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Event, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinSet;

use super::crowd::queued;
use crate::common::builder;
use crate::lent::lent_database;
use crate::patience::{
    BUSY_MACHINE, Listener, PATIENCE, locks, soon, until, until_nothing_is_left,
};

/// The sizes of the driver's pool; 10 is its default.
const POOLS: [u32; 3] = [1, 2, 10];
/// For how long a stream may delay the command that detects the lack of room for it. A read of the stream takes 10 s.
const BLOCKED: Duration = Duration::from_secs(5);
/// A call that finds no connection waits for longer: for its holder's ttl of 30 s, or for its own deadline.
const STARVED: Duration = Duration::from_secs(15);

async fn pooled(server: &Server, database: &TestDatabase, size: u32) -> LeaseManager {
    let client = server.client_with(|options| options.max_pool_size = Some(size)).await;
    LeaseManager::builder(&database.through(&client)).build().await.unwrap()
}

/// Returns when it is decided whether there is a stream.
async fn settled(events: &mut Listener) -> bool {
    let settled = |event: &Event| match event {
        Event::Watching => Some(true),
        Event::Polling { .. } => Some(false),
        _ => None,
    };
    events.find(settled).await
}

/// Waits of all lengths for names that are held, some of them for the same.
fn many_waits(leases: &LeaseManager, waits: &mut JoinSet<(Duration, Duration, Error)>) {
    for number in 0..16_u32 {
        let wait = Duration::from_secs(3) + Duration::from_millis(40) * number;
        let asking = leases.acquire(format!("held:{}", number % 3)).wait(wait).into_future();
        waits.spawn(async move {
            let started = Instant::now();
            let error = asking.await.unwrap_err();
            (wait, started.elapsed(), error)
        });
    }
}

/// The greatest delay of all of them after their deadlines.
async fn latest(mut waits: JoinSet<(Duration, Duration, Error)>) -> Duration {
    let mut latest = Duration::ZERO;
    while let Some(ended) = soon("the end of a wait", waits.join_next()).await {
        let (wait, took, error) = ended.unwrap();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        assert!(took >= wait && took < wait + BUSY_MACHINE, "{wait:?}: {took:?}");
        latest = latest.max(took.saturating_sub(wait));
    }
    latest
}

async fn waits_end_in_time(is_stopped: bool) {
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    let mut held = Vec::new();
    for number in 0..3 {
        held.push(holder.acquire(format!("held:{number}")).await.unwrap());
    }
    let mut waits = JoinSet::new();
    let mut streams = Vec::new();
    let mut all = Vec::new();
    for size in POOLS {
        let leases = pooled(&server, &database, size).await;
        let mut events = Listener::of(&leases);
        many_waits(&leases, &mut waits);
        streams.push(settled(&mut events).await);
        all.push(leases);
    }
    assert_eq!(streams, [false, true, true]);
    if is_stopped {
        server.mongod().pause();
    }
    eprintln!("the latest wait ended {:?} behind its deadline", latest(waits).await);
    if is_stopped {
        server.mongod().resume();
    }
    // They have also left the queues.
    let locks = locks(&database);
    let in_line = doc! { "queue": { "$exists": true } };
    let nobody = async || {
        let in_line = locks.count_documents(in_line.clone()).await;
        in_line.is_ok_and(|count| count == 0).then_some(())
    };
    let started = Instant::now();
    until("all have left", nobody).await;
    eprintln!("all had left {:?} later", started.elapsed());
    drop(held);
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn queued_waits_end_at_their_deadlines_with_any_pool_size() {
    waits_end_in_time(false).await;
}

#[tokio::test]
async fn queued_waits_end_at_their_deadlines_when_the_primary_stops() {
    waits_end_in_time(true).await;
}

/// The slowest of a manager's operations while one of its calls waits.
async fn slowest_beside_a_waiter(leases: &LeaseManager, kind: &str) -> Duration {
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    for number in 0.. {
        let started = Instant::now();
        let lease = leases.acquire(format!("{kind}:{number}")).wait(PATIENCE).await.unwrap();
        let acquired = started.elapsed();
        let started = Instant::now();
        lease.release().await.unwrap();
        slowest = slowest.max(acquired).max(started.elapsed());
        if began.elapsed() > Duration::from_secs(4) {
            break;
        }
    }
    slowest
}

#[tokio::test]
async fn in_pools_of_1_and_2_a_waiter_is_granted_and_blocks_nothing() {
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    join_all([1, 2].map(async |size| {
        let name = format!("a:{size}");
        let leases = pooled(&server, &database, size).await;
        let mut events = Listener::of(&leases);
        let lease = holder.acquire(&name).await.unwrap();
        let next = tokio::spawn(leases.acquire(&name).into_future());
        queued(&mut events).await;
        let slowest = slowest_beside_a_waiter(&leases, &format!("own:{size}")).await;
        let started = Instant::now();
        lease.release().await.unwrap();
        let next = soon("the next grant", next).await.unwrap().unwrap();
        let took = started.elapsed();
        eprintln!("a pool of {size}: {slowest:?} at most beside it, granted after {took:?}");
        assert!(slowest < BLOCKED && took < BLOCKED, "{size}: {slowest:?} {took:?}");
        next.release().await.unwrap();
    }))
    .await;
}

/// More managers with streams than the pool that they share has connections.
#[tokio::test]
async fn managers_sharing_a_small_pool_are_granted_and_block_nothing() {
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    join_all([(2, 3), (10, 12)].map(async |(size, managers)| {
        let client = server.client_with(|options| options.max_pool_size = Some(size)).await;
        let shared = database.through(&client);
        let mut next = JoinSet::new();
        let mut held = Vec::new();
        let mut all = Vec::new();
        for number in 0..managers {
            let leases = LeaseManager::builder(&shared).build().await.unwrap();
            let mut events = Listener::of(&leases);
            held.push(holder.acquire(format!("a:{size}:{number}")).await.unwrap());
            next.spawn(leases.acquire(format!("a:{size}:{number}")).into_future());
            queued(&mut events).await;
            all.push(leases);
        }
        let slowest = slowest_beside_a_waiter(&all[0], &format!("own:{size}")).await;
        let started = Instant::now();
        for lease in held {
            lease.release().await.unwrap();
        }
        while let Some(next) = soon("a grant", next.join_next()).await {
            next.unwrap().unwrap().release().await.unwrap();
        }
        let took = started.elapsed();
        eprintln!("{managers} in a pool of {size}: {slowest:?} beside them, all after {took:?}");
        assert!(slowest < STARVED && took < STARVED, "{size}: {slowest:?} {took:?}");
    }))
    .await;
}
