//! Many waiters in one process: one entry for all of them, in order among themselves, and in turns with others.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{
    NEVER, Waiting, by_hand, dropped, granted, in_line, line_of, manager, queued, start_waiting,
    told_only, told_only_tuning, until_line_is,
};
use crate::common::{SHORT_TTL, migrated};
use crate::lent::lent_database;
use crate::patience::{BUSY_MACHINE, Listener, until, until_nothing_is_left};
use crate::spy::Spy;

/// Waits, releases at once, and returns its token.
async fn pass(waiting: Waiting) -> u64 {
    let lease = waiting.await.unwrap().unwrap();
    let token = lease.token().unwrap().as_u64();
    lease.release().await.unwrap();
    token
}

/// For the run by hand: 1,000.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_many_waiters_takes_turns_with_others() {
    let many = by_hand("MONGO_LEASE_LOCAL_WAITERS", 200);
    let (server, database) = lent_database().await;
    let [holder, crowd, few, single] = [
        manager(&server, &database).await,
        manager(&server, &database).await,
        manager(&server, &database).await,
        manager(&server, &database).await,
    ];
    let lease = holder.acquire("a").await.unwrap();
    let begin = |leases: &LeaseManager, count: usize| -> Vec<_> {
        (0..count).map(|_| tokio::spawn(pass(start_waiting(leases.acquire("a"))))).collect()
    };
    let crowded = begin(&crowd, many);
    until("the crowd is in line", async || waiting_is(&holder, 1).await).await;
    let fewer = begin(&few, 10);
    until("the few are in line", async || waiting_is(&holder, 2).await).await;
    let alone = begin(&single, 1);
    until("the single one is in line", async || waiting_is(&holder, 3).await).await;
    let started = Instant::now();
    lease.release().await.unwrap();
    let tokens = |tasks| async { join_all(tasks).await.into_iter().map(Result::unwrap) };
    let crowded: Vec<u64> = tokens(crowded).await.collect();
    let fewer: Vec<u64> = tokens(fewer).await.collect();
    let alone: Vec<u64> = tokens(alone).await.collect();
    let took = started.elapsed();
    // First come, first served, within each.
    assert!(crowded.is_sorted() && fewer.is_sorted());
    let before = |token: u64| crowded.iter().filter(|crowded| **crowded < token).count();
    let turns: Vec<usize> = fewer.iter().map(|token| before(*token)).collect();
    eprintln!("{many} + 10 + 1 in {took:?}; the few came behind {turns:?} of the crowd");
    assert!(before(alone[0]) <= 3, "{}", before(alone[0]));
    // A turn each; a waiter that came too late for its turn has to let another one pass.
    assert!(turns[9] <= 20, "{turns:?}");
    until_nothing_is_left(&database).await;
}

async fn waiting_is(leases: &LeaseManager, count: u32) -> Option<()> {
    (leases.get("a").await.unwrap().unwrap().waiting == count).then_some(())
}

/// A holder, a manager with that many waiting calls and a listener, and one call of another process behind it.
struct Local {
    database: TestDatabase,
    lease: mongo_lease::Lease,
    spy: Spy,
    leases: LeaseManager,
    waiting: Vec<Waiting>,
    behind: Waiting,
}

async fn local(waits: &[Duration], waiter_ttl: Duration) -> Local {
    let server = Server::shared();
    let database = migrated(server).await;
    let lease = manager(server, &database).await.acquire("a").await.unwrap();
    let (client, spy) = Spy::client(server).await;
    let leases =
        told_only(&database.through(&client)).tuning(told_only_tuning().waiter_ttl(waiter_ttl));
    let leases = leases.build().await.unwrap();
    spy.names();
    let mut events = Listener::of(&leases);
    let begin = |(number, wait): (usize, &Duration)| {
        start_waiting(leases.acquire("a").wait(*wait).owner(format!("local {number}")))
    };
    let waiting = waits.iter().enumerate().map(begin).collect();
    queued(&mut events).await;
    events.watching().await;
    let other = manager(server, &database).await;
    let behind = in_line(&other, other.acquire("a").owner("behind")).await;
    let asks = spy.names().into_iter().filter(|name| name == "findAndModify").count();
    // The fast path first, and then a slow acquire.
    assert_eq!(asks, 2, "they are one to the server");
    Local { database, lease, spy, leases, waiting, behind }
}

/// The commands that were sent, except the stream's own.
fn sent(spy: &Spy) -> Vec<String> {
    spy.names()
        .into_iter()
        .filter(|name| !["getMore", "killCursors", "ping"].contains(&name.as_str()))
        .collect()
}

#[tokio::test]
async fn those_who_go_from_the_middle_of_a_process_cost_nothing() {
    let life = Duration::from_secs(600);
    let Local { database, lease, spy, mut waiting, behind, .. } = local(&[NEVER; 5], life).await;
    dropped(waiting.remove(2)).await;
    dropped(waiting.remove(1)).await;
    assert_eq!(line_of(&database, "a").await, ["local 0", "behind"]);
    assert_eq!(sent(&spy), Vec::<String>::new());
    lease.release().await.unwrap();
    let mut newest = 0;
    waiting.insert(1, behind);
    for waiting in waiting {
        let lease = granted(waiting).await;
        assert!(lease.token().unwrap().as_u64() > newest);
        newest = lease.token().unwrap().as_u64();
        lease.release().await.unwrap();
    }
    until_nothing_is_left(&database).await;
}

/// A call that inherited an entry is promoted in it, before later waiters.
#[tokio::test]
async fn the_successor_of_one_that_goes_keeps_its_place() {
    let life = Duration::from_secs(600);
    let local = local(&[NEVER, SHORT_TTL * 5, NEVER, NEVER], life).await;
    let Local { database, lease, spy, mut waiting, behind, .. } = local;
    dropped(waiting.remove(0)).await;
    // The second call's time is over while it has the first one's entry.
    let error = waiting.remove(0).await.unwrap().unwrap_err();
    let Error::WaitTimeout { held, .. } = error else { panic!("{error}") };
    assert_eq!(held.unwrap().value.as_deref(), Some(lease.value()), "it knows who had it");
    assert_eq!(line_of(&database, "a").await, ["local 0", "behind"]);
    assert_eq!(sent(&spy), Vec::<String>::new());

    let token = lease.token().unwrap();
    lease.release().await.unwrap();
    let lease = granted(waiting.remove(0)).await;
    assert!(lease.token().unwrap() > token);
    assert!(!behind.is_finished());
    until_line_is(&database, "a", &["behind", "local 3"]).await;
    let owner = crate::common::document(&database, "a").await.unwrap();
    assert_eq!(super::holder_of(&owner), Some("local 2"));
    lease.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
    granted(waiting.remove(0)).await.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn the_last_one_to_go_takes_the_entry_out_with_one_command() {
    let life = Duration::from_secs(600);
    let local = local(&[NEVER; 3], life).await;
    let Local { database, lease, spy, leases, waiting, behind } = local;
    for waiting in waiting {
        assert_eq!(line_of(&database, "a").await, ["local 0", "behind"]);
        assert_eq!(sent(&spy), Vec::<String>::new());
        dropped(waiting).await;
    }
    until_line_is(&database, "a", &["behind"]).await;
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(sent(&spy), ["update"]);
    assert!(!behind.is_finished());
    lease.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
}

/// Its heartbeats go on, although the call that the server knows makes no attempts any more.
#[tokio::test]
async fn a_place_that_was_left_to_a_successor_lives_on() {
    let life = Duration::from_secs(1);
    let Local { database, lease, mut waiting, behind, .. } = local(&[NEVER; 2], life).await;
    let beat = async || {
        let document = crate::common::document(&database, "a").await.unwrap();
        let queue = document.get_array("queue").unwrap();
        queue[0].as_document().unwrap().get_datetime("heartbeatAt").unwrap().timestamp_millis()
    };
    dropped(waiting.remove(0)).await;
    let began = beat().await;
    until("it has lived for three lives", async || (beat().await > began + 3_000).then_some(()))
        .await;
    assert_eq!(line_of(&database, "a").await, ["local 0", "behind"]);
    lease.release().await.unwrap();
    granted(waiting.remove(0)).await.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
}

/// Also of calls that have not become active, and of those that inherit an entry.
#[tokio::test]
async fn the_waits_of_one_process_end_at_their_own_deadlines() {
    let server = Server::shared();
    let database = migrated(server).await;
    let lease = manager(server, &database).await.acquire("a").await.unwrap();
    let leases = manager(server, &database).await;
    let mut waits = tokio::task::JoinSet::new();
    // The first call waits longer than some that come after it.
    for millis in [600, 900, 200, 700, 300, 650, 250, 1_000, 500] {
        let wait = Duration::from_millis(millis);
        let started = Instant::now();
        let waiting = start_waiting(leases.acquire("a").wait(wait));
        waits.spawn(async move { (wait, waiting.await.unwrap().unwrap_err(), started.elapsed()) });
    }
    while let Some(ended) = waits.join_next().await {
        let (wait, error, took) = ended.unwrap();
        let Error::WaitTimeout { held, .. } = error else { panic!("{error}") };
        assert_eq!(held.unwrap().value.as_deref(), Some(lease.value()));
        assert!(took >= wait && took < wait + BUSY_MACHINE, "{wait:?}: {took:?}");
    }
    until_line_is(&database, "a", &[]).await;
}
