//! The cost of waiting for the server.

use std::time::Duration;

use futures_util::future::join;
use mongo_lease_testbed::{CommandCounts, Server};

use super::{granted, in_line_watching, manager, workers};
use crate::common::migrated;
use crate::lent::{lent_database, lent_server};

const TEST: &str = "line::cost::waiting_costs_a_process_a_handful_of_commands";
const PROCESSES: usize = 2;

/// Processes with one call each, and with a thousand.
#[tokio::test]
async fn waiting_costs_a_process_a_handful_of_commands() {
    if workers::serve().await {
        return;
    }
    let servers = [lent_server().await, lent_server().await];
    join(count_commands(&servers[0], 1), count_commands(&servers[1], 1_000)).await;
}

async fn count_commands(server: &Server, calls: usize) {
    let waiter_ttl = Duration::from_secs(4);
    let (recheck_every, max_clock_skew) = (Duration::from_secs(15), Duration::from_secs(1));
    let options = workers::Options { waiter_ttl, recheck_every, max_clock_skew };
    let database = migrated(server).await;
    let mut workers = workers::start(TEST, server, &database, PROCESSES, options).await;
    let holder = options.of(&database).build().await.unwrap();
    let _lease = holder.acquire(workers::NAME).renew(false).await.unwrap();
    let before = server.command_counts().await;
    for worker in &mut workers {
        worker.tell(&format!("wait {calls} {}", waiter_ttl.as_millis())).await;
    }
    let (mut most, mut polled) = (0, 0);
    for worker in &mut workers {
        // When all of its waits are over.
        let said = worker.says().await;
        let numbers: Vec<usize> = said.split(' ').map(|number| number.parse().unwrap()).collect();
        // A manager checks, each time that it waits for an event, that commands come through beside the stream. Where
        // that takes longer than 1 s, because the machine is busy, it polls for a moment.
        match numbers[..] {
            [1..=2, 1, others] => most = most.max(1 + others),
            _ => polled += 1,
        }
    }
    assert!(most > 0 && most <= 5, "{calls} calls: {most} commands, and one or two pings");
    assert!(polled <= PROCESSES / 2, "{calls} calls: {polled} had to poll");
    let counts = server.command_counts().await.since(&before);
    let CommandCounts { find_and_modify, delete, update, insert, find, .. } = counts;
    let counted = find_and_modify + delete + update + insert + find;
    let counted = counted + counts.aggregate + counts.get_more;
    // By the server's own count, which also includes what the driver hides.
    assert!(polled > 0 || counted <= 5 * PROCESSES as u64, "{calls} calls: {counts:?}");
}

/// A hand-off is one write, and one event to one process, with any number of waiters.
#[tokio::test]
async fn a_hand_off_costs_the_same_whatever_waits() {
    const HANDOFFS: u64 = 9;
    let (server, database) = lent_database().await;
    let holder = manager(&server, &database).await;
    let lease = holder.acquire("a").await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..=HANDOFFS {
        let leases = manager(&server, &database).await;
        waiting.push(in_line_watching(&leases, leases.acquire("a").renew(false)).await);
    }
    // The first holder did not know that there would be a waiter.
    lease.release().await.unwrap();
    let mut lease = granted(waiting.remove(0)).await;
    let before = server.command_counts().await;
    for next in waiting {
        lease.release().await.unwrap();
        lease = granted(next).await;
    }
    let counts = server.command_counts().await.since(&before);
    let written = counts.find_and_modify + counts.delete + counts.update;
    // Besides the release there is the renewal that gives a promoted lease its full ttl.
    assert!(written <= 2 * HANDOFFS, "{counts:?}");
    assert!(counts.get_more <= 2 * HANDOFFS, "{counts:?}");
    // A renewal that comes after the release finds nothing, and queries the reason.
    assert!(counts.find <= HANDOFFS, "{counts:?}");
    assert_eq!(counts.aggregate, 0, "{counts:?}");
    lease.release().await.unwrap();
}
