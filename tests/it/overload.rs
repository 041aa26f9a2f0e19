//! More calls of one process than the server carries out: they wait in the process, and what is sent does not grow.

use std::time::Duration;

use mongo_lease::{Error, Lease, LeaseManager, Tuning};
use mongo_lease_testbed::{CommandCounts, FailCommand, Server};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::builder;
use crate::lent::{LentServer, lent_database};
use crate::patience::MUCH_PATIENCE;

const CALLS: usize = 5_000;

/// Full acquires, each of which is a command. A few calls may need one; of the calls that wait, none may.
const FEW: u64 = CALLS as u64 / 10;

/// Starts so many calls at once, each for a name of its own.
fn start(leases: &LeaseManager, wait: Duration) -> JoinSet<Result<Lease, Error>> {
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        calls.spawn(leases.acquire(format!("lease:{number}")).wait(wait).into_future());
    }
    calls
}

/// A server that no other test uses, what it has carried out so far, and a manager with this time for an attempt.
async fn overloaded(attempt: Duration) -> (LentServer, CommandCounts, LeaseManager) {
    let (server, database) = lent_database().await;
    let tuning = Tuning::default().attempt_timeout(attempt);
    // No lease is renewed within a test: renewals of thousands count as commands, and a busy machine loses leases.
    let leases = builder(&database).tuning(tuning).ttl(5 * MUCH_PATIENCE);
    let leases = leases.shutdown_timeout(MUCH_PATIENCE).build().await.unwrap();
    // Its connections are open from now on.
    leases.acquire("before").await.unwrap().release().await.unwrap();
    let before = server.command_counts().await;
    (server, before, leases)
}

/// The leases of the calls, each of which is granted its own, by few commands.
async fn granted_by_few(
    calls: JoinSet<Result<Lease, Error>>,
    server: &Server,
    before: &CommandCounts,
) -> Vec<Lease> {
    let answers = timeout(2 * MUCH_PATIENCE, calls.join_all()).await.expect("each call ends");
    let held: Result<Vec<_>, _> = answers.into_iter().collect();
    let sent = server.command_counts().await.since(before);
    assert!(sent.find_and_modify < FEW, "{sent:?}");
    assert!(sent.update < FEW && sent.find < FEW, "{sent:?}");
    held.expect("each call is granted its lease")
}

/// The calls take several times an attempt's time, because the server takes its time for each command.
#[tokio::test]
async fn a_call_that_waits_in_its_process_is_sent_once() {
    const DELAY: Duration = Duration::from_millis(300);
    let attempt = DELAY * 10;
    let (server, before, leases) = overloaded(attempt).await;
    let slow = FailCommand::on(&["findAndModify", "update", "find"]).block_for(DELAY);
    let slow = slow.enable(server.uri()).await;
    let started = std::time::Instant::now();
    let calls = start(&leases, MUCH_PATIENCE);
    let _held = granted_by_few(calls, &server, &before).await;
    assert!(started.elapsed() > attempt, "it was not slow: {:?}", started.elapsed());
    drop(slow);
    assert_eq!(leases.shutdown().await.released, CALLS);
}

#[tokio::test]
async fn calls_of_a_server_that_hangs_are_repeated_together() {
    const ATTEMPT: Duration = Duration::from_secs(2);
    let (server, before, leases) = overloaded(ATTEMPT).await;
    server.mongod().pause();
    let calls = start(&leases, MUCH_PATIENCE);
    // Meanwhile attempts are unanswered, and are repeated. A bounded call ends on time.
    let error = leases.acquire("bounded").wait(ATTEMPT * 4).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    server.mongod().resume();
    let _held = granted_by_few(calls, &server, &before).await;
    assert_eq!(leases.shutdown().await.released, CALLS);
}
