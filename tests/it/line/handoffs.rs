//! No wake-up is lost.

use std::time::Duration;

use mongo_lease_testbed::Server;
use tokio::task::JoinSet;

use super::{NEVER, by_hand, manager, workers};
use crate::common::migrated;
use crate::lent::lent_database;
use crate::patience::{Listener, PATIENCE};

const TEST: &str = "line::handoffs::no_hand_off_between_processes_is_missed";
const PROCESSES: usize = 8;

/// For the run by hand: 10,000.
#[tokio::test]
async fn no_hand_off_between_processes_is_missed() {
    if workers::serve().await {
        return;
    }
    let handoffs = by_hand("MONGO_LEASE_HANDOFFS", 300);
    let (server, database) = lent_database().await;
    // Neither a poll nor a heartbeat finds a promotion that the change stream has missed.
    let waiter_ttl = Duration::from_secs(600);
    let options = workers::Options { recheck_every: NEVER, waiter_ttl, ..workers::Options::USUAL };
    let mut workers = workers::start(TEST, &server, &database, PROCESSES, options).await;
    // No process begins before all are in the queue.
    let holder = options.of(&database).build().await.unwrap();
    let lease = holder.acquire(workers::NAME).await.unwrap();
    for worker in &mut workers {
        worker.tell(&format!("rounds {}", handoffs.div_ceil(PROCESSES))).await;
    }
    let all_wait = async || {
        let waiting = holder.get(workers::NAME).await.unwrap().unwrap().waiting as usize;
        (waiting == PROCESSES).then_some(())
    };
    crate::patience::until("all stand in line", all_wait).await;
    let before = server.command_counts().await;
    lease.release().await.unwrap();
    // Far more than they need. By default it is less than one of them takes that stalls.
    let time = PATIENCE + Duration::from_millis(100) * u32::try_from(handoffs).unwrap();
    let held = tokio::time::timeout(time, workers::rounds_of(&mut workers)).await;
    let held = held.expect("hand-offs stall");
    eprintln!("{:?}", server.command_counts().await.since(&before));
    assert_eq!(held.len(), handoffs.div_ceil(PROCESSES) * PROCESSES);
    let mut gaps = Vec::new();
    for pair in held.windows(2) {
        assert!(pair[0].token < pair[1].token);
        assert!(pair[0].until <= pair[1].from, "two hold it: {pair:?}");
        gaps.push(pair[1].from - pair[0].until);
    }
    gaps.sort_unstable();
    let at = |percent: usize| gaps[(gaps.len() - 1) * percent / 100];
    let [half, most, longest] = [at(50), at(99), at(100)];
    eprintln!("{} hand-offs; p50 {half:?}, p99 {most:?}, longest {longest:?}", gaps.len());
}

/// A manager finds out that its stream leaves room for other commands also while events come without a pause.
#[tokio::test]
async fn a_stream_that_is_never_silent_is_relied_on() {
    let server = Server::shared();
    let database = migrated(server).await;
    let mut rounds = JoinSet::new();
    let mut listeners = Vec::new();
    for _ in 0..3 {
        let leases = manager(server, &database).await;
        listeners.push(Listener::of(&leases));
        rounds.spawn(async move {
            loop {
                leases.acquire("a").await.unwrap().release().await.unwrap();
            }
        });
    }
    for events in &mut listeners {
        events.watching().await;
    }
    rounds.abort_all();
}
