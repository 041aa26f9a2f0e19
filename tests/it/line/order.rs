//! Waiters are granted in the order in which they came.

use mongo_lease_testbed::{Server, TestDatabase};

use super::{by_hand, granted, in_line, manager, workers};
use crate::common::{builder, migrated};
use crate::lent::lent_server;
use crate::worker::Worker;
use std::time::{Duration, Instant};

const TEST: &str = "line::order::processes_are_granted_in_the_order_in_which_they_came";

/// Processes that come one after the other, all alive; and again, with some killed while they wait, the first waiter
/// among them. For the run by hand: ten runs of 20 processes each, with the usual options.
#[tokio::test]
async fn processes_are_granted_in_the_order_in_which_they_came() {
    if workers::serve().await {
        return;
    }
    let server = lent_server().await;
    let runs = by_hand("MONGO_LEASE_ORDER_RUNS", 0);
    if runs == 0 {
        let waiter_ttl = Duration::from_secs(2);
        let max_clock_skew = Duration::from_millis(200);
        let quick = workers::Options { waiter_ttl, recheck_every: waiter_ttl, max_clock_skew };
        line_up_twice(&server, 7, &[0, 3], quick).await;
    }
    for run in 0..runs {
        eprintln!("run {run}");
        line_up_twice(&server, 20, &[0, 1, 10], workers::Options::USUAL).await;
    }
}

async fn line_up_twice(
    server: &Server,
    processes: usize,
    killed: &[usize],
    options: workers::Options,
) {
    let database = migrated(server).await;
    let mut workers = workers::start(TEST, server, &database, processes, options).await;
    let tokens = let_go_in_front_of(&database, &mut workers, &[], options).await;
    assert_in_order(&tokens);
    let tokens = let_go_in_front_of(&database, &mut workers, killed, options).await;
    assert_in_order(&tokens);
    assert!(crate::common::document(&database, workers::NAME).await.is_none());
}

/// The tokens in the order in which their holders came.
async fn let_go_in_front_of(
    database: &TestDatabase,
    workers: &mut [Worker],
    killed: &[usize],
    options: workers::Options,
) -> Vec<u64> {
    let holder = options.of(database).build().await.unwrap();
    let lease = holder.acquire(workers::NAME).await.unwrap();
    let newest = lease.token().unwrap().as_u64();
    workers::line_up(workers).await;
    for &number in killed {
        workers[number].kill();
    }
    let started = Instant::now();
    lease.release().await.unwrap();
    let mut tokens = vec![newest];
    for (number, worker) in workers.iter_mut().enumerate() {
        if !killed.contains(&number) {
            tokens.push(workers::token(worker).await);
        }
    }
    eprintln!("{} grants, {} killed: {:?}", tokens.len(), killed.len(), started.elapsed());
    // The last one has released it, and reported that before.
    let free = async || holder.get(workers::NAME).await.unwrap().is_none().then_some(());
    crate::patience::until("the last one has let go", free).await;
    tokens
}

fn assert_in_order(tokens: &[u64]) {
    let mut pairs = 0;
    let mut inversions = 0;
    for (number, token) in tokens.iter().enumerate() {
        for later in &tokens[number + 1..] {
            pairs += 1;
            inversions += u32::from(later <= token);
        }
    }
    eprintln!("{inversions} inversions of {pairs}");
    assert_eq!(inversions, 0, "{tokens:?}");
}

/// Tokens rise over promotions, and every hand-off ends one holder's time before the next one's begins.
#[tokio::test]
async fn managers_are_granted_in_queue_order_with_rising_tokens() {
    let database = migrated(Server::shared()).await;
    let first = builder(&database).build().await.unwrap();
    let mut lease = first.acquire("a").await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..5 {
        let leases = manager(Server::shared(), &database).await;
        let acquire = leases.acquire("a").owner(format!("waiter {number}"));
        waiting.push(in_line(&leases, acquire).await);
    }
    for (number, waiting) in waiting.into_iter().enumerate() {
        let token = lease.token().unwrap();
        lease.release().await.unwrap();
        lease = granted(waiting).await;
        assert!(lease.token().unwrap() > token);
        assert!(lease.is_valid());
        let info = first.get("a").await.unwrap().unwrap();
        assert_eq!(info.value.as_deref(), Some(lease.value()));
        assert!(info.owner.unwrap().starts_with(&format!("waiter {number}@")));
        assert_eq!(info.waiting as usize, 4 - number);
    }
    lease.release().await.unwrap();
    assert!(crate::common::document(&database, "a").await.is_none());
}
