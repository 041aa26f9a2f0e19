//! The cost of waiting for the server.

use std::time::{Duration, Instant};

use futures_util::future::join;
use mongo_lease_testbed::{CommandCounts, Server};

use super::{by_hand, granted, in_line_watching, manager, workers};
use crate::common::migrated;
use crate::lent::{lent_database, lent_server};
use crate::patience::soon;

const TEST: &str = "line::cost::waiting_costs_a_process_a_handful_of_commands";

/// One process with one call, and one with a thousand. For the run by hand: 50 of each, for 10 s.
#[tokio::test]
async fn waiting_costs_a_process_a_handful_of_commands() {
    if workers::serve().await {
        return;
    }
    let processes = by_hand("MONGO_LEASE_WAITING_PROCESSES", 0);
    let (processes, options) = match processes {
        // The same waiter ttl as in the run by hand.
        0 => {
            (2, workers::Options { waiter_ttl: Duration::from_secs(4), ..workers::Options::USUAL })
        }
        by_hand => (by_hand, workers::Options::USUAL),
    };
    let servers = [lent_server().await, lent_server().await];
    let few = count_commands(&servers[0], processes, 1, options);
    join(few, count_commands(&servers[1], processes, 1_000, options)).await;
}

async fn count_commands(
    server: &Server,
    processes: usize,
    calls: usize,
    options: workers::Options,
) {
    let database = migrated(server).await;
    let mut workers = workers::start(TEST, server, &database, processes, options).await;
    let holder = options.of(&database).build().await.unwrap();
    let _lease = holder.acquire(workers::NAME).renew(false).await.unwrap();
    let before = server.command_counts().await;
    let started = Instant::now();
    for worker in &mut workers {
        worker.tell(&format!("wait {calls} {}", options.waiter_ttl.as_millis())).await;
    }
    for worker in &mut workers {
        assert_eq!(worker.says().await, "timed out");
    }
    let waited = started.elapsed();
    let counts = server.command_counts().await.since(&before);
    eprintln!("{processes} processes with {calls} calls each waited {waited:?}: {counts:?}");
    let (mut most, mut polled) = (0, 0);
    for worker in &mut workers {
        worker.tell("commands").await;
        let said = worker.says().await;
        eprintln!("    {said}");
        let of = |name: &str| workers::count_of(&said, name);
        let all: usize = said.split(' ').map(|name| of(name.split(':').next().unwrap())).sum();
        // A manager checks, each time that it waits for an event, that commands come through beside the stream. Where
        // that takes longer than 1 s, because the machine is busy, it polls for a moment.
        match (of("ping"), of("aggregate")) {
            (pings @ 1..=2, 1) => most = most.max(all - pings),
            _ => polled += 1,
        }
    }
    eprintln!("at most {most} commands a process, and one or two pings; {polled} had to poll");
    assert!(most > 0 && most <= 5, "{most}");
    assert!(polled <= processes / 2, "{polled}");
    let CommandCounts { find_and_modify, delete, update, insert, find, .. } = counts;
    let counted = find_and_modify + delete + update + insert + find;
    let counted = counted + counts.aggregate + counts.get_more;
    // By the server's own count, which also includes what the driver hides.
    assert!(polled > 0 || counted <= 5 * u64::try_from(processes).unwrap(), "{counts:?}");
}

/// A hand-off is one write, and one event to one process, with any number of waiters.
#[tokio::test]
async fn a_hand_off_costs_the_same_whatever_waits() {
    let (server, database) = lent_database().await;
    let holder = manager(&server, &database).await;
    let mut lease = holder.acquire("a").await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..10 {
        let leases = manager(&server, &database).await;
        waiting.push(in_line_watching(&leases, leases.acquire("a").renew(false)).await);
    }
    let mut waiting = waiting.into_iter();
    // The first holder did not know that there would be a waiter.
    lease.release().await.unwrap();
    lease = granted(waiting.next().unwrap()).await;
    let before = server.command_counts().await;
    let handoffs = waiting.len();
    for next in waiting {
        lease.release().await.unwrap();
        lease = soon("a hand-off", granted(next)).await;
    }
    let counts = server.command_counts().await.since(&before);
    eprintln!("{handoffs} hand-offs: {counts:?}");
    let handoffs = u64::try_from(handoffs).unwrap();
    let written = counts.find_and_modify + counts.delete + counts.update;
    // Besides the release there is the renewal that gives a promoted lease its full ttl.
    assert!(written <= 2 * handoffs, "{counts:?}");
    assert!(counts.get_more <= 2 * handoffs, "{counts:?}");
    // A renewal that comes after the release finds nothing, and queries the reason.
    assert!(counts.find <= handoffs, "{counts:?}");
    assert_eq!(counts.aggregate, 0, "{counts:?}");
    lease.release().await.unwrap();
}
