//! No wake-up is lost.

use std::collections::BTreeSet;

use mongo_lease_testbed::Server;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{LONG_LIFE, NEVER, manager, workers};
use crate::common::migrated;
use crate::lent::lent_database;
use crate::patience::{Listener, PATIENCE, until};

const TEST: &str = "line::handoffs::no_hand_off_between_processes_is_missed";
const PROCESSES: usize = 8;
/// How often each of them holds the lease.
const ROUNDS: usize = 38;

#[tokio::test]
async fn no_hand_off_between_processes_is_missed() {
    if workers::serve().await {
        return;
    }
    let (server, database) = lent_database().await;
    // Neither a poll nor a heartbeat finds a promotion that the change stream has missed.
    let options =
        workers::Options { recheck_every: NEVER, waiter_ttl: LONG_LIFE, ..workers::Options::USUAL };
    let mut workers = workers::start(TEST, &server, &database, PROCESSES, options).await;
    // No process begins before all are in the queue.
    let holder = options.of(&database).build().await.unwrap();
    let lease = holder.acquire(workers::NAME).await.unwrap();
    for worker in &mut workers {
        worker.tell(&format!("rounds {ROUNDS}")).await;
    }
    let all_wait = async || {
        let waiting = holder.get(workers::NAME).await.unwrap().unwrap().waiting as usize;
        (waiting == PROCESSES).then_some(())
    };
    until("all are in the queue", all_wait).await;
    lease.release().await.unwrap();
    // Far more than they need, and less than one of them takes that stalls.
    let tokens = timeout(PATIENCE * 2, workers::tokens_of_rounds(&mut workers)).await;
    let tokens: BTreeSet<u64> = tokens.expect("hand-offs stall").into_iter().collect();
    assert_eq!(tokens.len(), ROUNDS * PROCESSES, "each has its own token");
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
