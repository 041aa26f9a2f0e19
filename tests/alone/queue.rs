//! The cost of waiting for the server, and of hand-offs.

use std::time::Duration;

use futures_util::future::join;
use mongo_lease::mongodb::Database;
use mongo_lease::{Error, LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::{CommandCounts, Server, TestDatabase};
use tokio::task::JoinSet;

use crate::common::migrated;
use crate::lent::{lent_database, lent_server};
use crate::patience::Listener;
use crate::spy::Spy;
use crate::waiters::{
    LONG_LIFE, dropped, granted, in_line, in_line_watching, line_of, manager, queued,
    start_waiting, told_only, until_line_is,
};
use crate::worker::{Worker, as_spied_worker, orders, say};

const TEST: &str = "queue::waiting_costs_a_process_a_handful_of_commands";
const PROCESSES: usize = 2;
/// The lease for which the processes wait.
const NAME: &str = "a";
/// For how long they wait, and an entry lives.
const WAIT: Duration = Duration::from_secs(4);

fn options(database: &Database) -> LeaseManagerBuilder {
    let tuning = Tuning::default().waiter_ttl(WAIT).recheck_every(Duration::from_secs(15));
    LeaseManager::builder(database).tuning(tuning)
}

/// Processes with one call each, and with a thousand.
#[tokio::test]
async fn waiting_costs_a_process_a_handful_of_commands() {
    if let Some((database, spy)) = as_spied_worker().await {
        return wait_on_order(&database, &spy).await;
    }
    let servers = [lent_server().await, lent_server().await];
    join(count_commands(&servers[0], 1), count_commands(&servers[1], 1_000)).await;
}

async fn count_commands(server: &Server, calls: usize) {
    let database = migrated(server).await;
    let mut workers = started(server, &database).await;
    let holder = options(&database).build().await.unwrap();
    let _lease = holder.acquire(NAME).renew(false).await.unwrap();
    let before = server.command_counts().await;
    for worker in &mut workers {
        worker.tell(&calls.to_string()).await;
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

/// The processes; each has its manager when this returns.
async fn started(server: &Server, database: &TestDatabase) -> Vec<Worker> {
    let start = |_| Worker::start(TEST, server.uri(), database);
    let mut workers: Vec<Worker> = (0..PROCESSES).map(start).collect();
    for worker in &mut workers {
        assert_eq!(worker.says().await, "ready");
    }
    workers
}

/// One of the processes. An order is a number of calls, none of which is granted the lease. The answer is how many
/// pings they have sent, how many openings of a stream, and how many other commands.
async fn wait_on_order(database: &Database, spy: &Spy) {
    let leases = options(database).build().await.unwrap();
    let mut orders = orders();
    spy.names();
    say("ready");
    while let Some(order) = orders.recv().await {
        let mut waiting = JoinSet::new();
        for _ in 0..order.parse().unwrap() {
            let acquire = leases.acquire(NAME).wait(WAIT);
            waiting.spawn(async move { acquire.await.map(drop) });
        }
        while let Some(result) = waiting.join_next().await {
            assert!(matches!(result.unwrap(), Err(Error::WaitTimeout { .. })));
        }
        let names = spy.names();
        let of = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
        let (pings, streams) = (of("ping"), of("aggregate"));
        say(format!("{pings} {streams} {}", names.len() - pings - streams));
    }
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

/// Four calls of one process, and one of another process behind them.
#[tokio::test]
async fn the_last_call_to_go_takes_the_entry_out_with_one_command() {
    let (server, database) = lent_database().await;
    let lease = manager(&server, &database).await.acquire("a").await.unwrap();
    let (client, spy) = Spy::client(&server).await;
    let leases = told_only(&database.through(&client), LONG_LIFE).build().await.unwrap();
    spy.names();
    let mut events = Listener::of(&leases);
    let begin = |number| start_waiting(leases.acquire("a").owner(format!("local {number}")));
    let mut waiting: Vec<_> = (0..4).map(begin).collect();
    queued(&mut events).await;
    events.watching().await;
    let other = manager(&server, &database).await;
    let behind = in_line(&other, other.acquire("a").owner("behind")).await;
    // They are one to the server: the fast path first, and then a slow acquire.
    assert_eq!(sent(&spy), ["findAndModify", "findAndModify", "aggregate"]);
    for place in [2, 1, 0, 0] {
        assert_eq!(line_of(&database, "a").await, ["local 0", "behind"]);
        assert_eq!(sent(&spy), Vec::<String>::new());
        dropped(waiting.remove(place)).await;
    }
    until_line_is(&database, "a", &["behind"]).await;
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(sent(&spy), ["update"]);
    assert!(!behind.is_finished());
    lease.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
}

/// The commands that were sent, except the stream's own.
fn sent(spy: &Spy) -> Vec<String> {
    spy.names()
        .into_iter()
        .filter(|name| !["getMore", "killCursors", "ping"].contains(&name.as_str()))
        .collect()
}
