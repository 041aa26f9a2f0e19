//! Many waiters in one process: one entry for all of them, in order among themselves, and in turns with others.

use futures_util::future::join_all;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::{Proxy, TestDatabase};
use tokio::time::timeout;

use super::{
    LONG_LIFE, Waiting, dropped, granted, holder_of, in_line, line_of, manager, manager_with,
    queued, start_waiting, told_only, until_line_is,
};
use crate::common::{document, short_or_long};
use crate::lent::{LentServer, behind_a_proxy, lent_database};
use crate::patience::{Listener, PATIENCE, bounded, until, until_nothing_is_left};

/// Waits, releases at once, and returns its token.
async fn pass(waiting: Waiting) -> u64 {
    let lease = waiting.await.unwrap().unwrap();
    let token = lease.token().unwrap().as_u64();
    lease.release().await.unwrap();
    token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_many_waiters_takes_turns_with_others() {
    let (server, database) = lent_database().await;
    let holder = manager(&server, &database).await;
    let lease = holder.acquire("a").await.unwrap();
    let mut processes = Vec::new();
    for (before, count) in (0..).zip([short_or_long(60, 200), short_or_long(30, 100), 1]) {
        // Neither a poll nor a heartbeat finds a hand-off that the change stream has missed.
        let leases = manager_with(&server, &database, LONG_LIFE).await;
        let calls = (0..count).map(|_| tokio::spawn(pass(start_waiting(leases.acquire("a")))));
        processes.push(join_all(calls.collect::<Vec<_>>()));
        let in_line = async || {
            let info = holder.get("a").await.unwrap().unwrap();
            (info.waiting == before + 1).then_some(())
        };
        until("the process is in line, once", in_line).await;
    }
    lease.release().await.unwrap();
    let mut tokens = Vec::new();
    for process in processes {
        let process = timeout(2 * PATIENCE, process).await.expect("a hand-off is missed");
        tokens.push(process.into_iter().map(Result::unwrap).collect::<Vec<u64>>());
    }
    let [crowd, few, single] = &tokens[..] else { unreachable!() };
    // First come, first served, within each.
    assert!(crowd.is_sorted() && few.is_sorted(), "{tokens:?}");
    let before = |token: u64| crowd.iter().filter(|crowded| **crowded < token).count();
    assert!(before(single[0]) <= 3, "{}", before(single[0]));
    // A turn each; a waiter that came too late for its turn has to let another one pass.
    assert!(before(few[9]) <= 20, "{}", before(few[9]));
    until_nothing_is_left(&database).await;
}

/// A holder, a manager with two waiting calls behind a proxy, and one call of another process behind them.
struct Local {
    _server: LentServer,
    database: TestDatabase,
    proxy: Proxy,
    lease: Lease,
    leases: LeaseManager,
    waiting: Vec<Waiting>,
    behind: Waiting,
}

async fn local() -> Local {
    let (server, database) = lent_database().await;
    let lease = manager(&server, &database).await.acquire("a").await.unwrap();
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = told_only(&through, LONG_LIFE).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let begin = |number| start_waiting(leases.acquire("a").owner(format!("local {number}")));
    let waiting = (0..2).map(begin).collect();
    queued(&mut events).await;
    events.watching().await;
    let other = manager(&server, &database).await;
    let behind = in_line(&other, other.acquire("a").owner("behind")).await;
    assert_eq!(line_of(&database, "a").await, ["local 0", "behind"], "they are one to the server");
    Local { _server: server, database, proxy, lease, leases, waiting, behind }
}

#[tokio::test]
async fn the_last_one_to_go_takes_the_entry_out() {
    let local = local().await;
    let Local { database, lease, leases, mut waiting, behind, .. } = local;
    dropped(waiting.remove(1)).await;
    assert_eq!(line_of(&database, "a").await, ["local 0", "behind"]);
    dropped(waiting.remove(0)).await;
    until_line_is(&database, "a", &["behind"]).await;
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    lease.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
}

/// The second call of a process finds the first one's promotion, and takes it over.
#[tokio::test]
async fn a_successor_takes_over_what_its_predecessor_was_promoted_to() {
    let local = local().await;
    let Local { _server, database, proxy, lease, leases, mut waiting, behind, .. } = local;
    let events = proxy.hold_replies_to("getMore");
    let token = lease.token().unwrap();
    lease.release().await.unwrap();
    bounded(events.held(1)).await;
    dropped(waiting.remove(0)).await;
    assert_eq!(holder_of(&document(&database, "a").await.unwrap()), Some("local 0"));
    events.release();
    let lease = granted(waiting.remove(0)).await;
    let found = document(&database, "a").await.unwrap();
    assert_eq!(holder_of(&found), Some("local 1"));
    assert_eq!(found.get_str("value").unwrap(), lease.value());
    assert!(lease.token().unwrap() > token);
    assert_eq!(line_of(&database, "a").await, ["behind"]);
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    until_nothing_is_left(&database).await;
}
