//! More calls of one process than the server carries out: they wait in the process, and what is sent does not grow.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Error, Lease, LeaseManager, Tuning};
use mongo_lease_testbed::FailCommand;
use tokio::task::JoinSet;

use crate::common::builder;
use crate::lent::{lent_database, lent_setup};
use crate::patience::{PATIENCE, bounded};

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

async fn all_granted(calls: JoinSet<Result<Lease, Error>>) -> Vec<Lease> {
    let answers = bounded(calls.join_all()).await;
    answers.into_iter().collect::<Result<_, _>>().expect("each call is granted its lease")
}

/// The calls take several times an attempt's time, because the server takes its time for each command.
#[tokio::test]
async fn a_call_that_waits_in_its_process_is_sent_once() {
    const DELAY: Duration = Duration::from_millis(300);
    let (server, database) = lent_database().await;
    let attempt = DELAY * 4;
    let leases = builder(&database)
        .tuning(Tuning::default().attempt_timeout(attempt))
        .shutdown_timeout(PATIENCE)
        .build()
        .await
        .unwrap();
    let slow = FailCommand::on(&["findAndModify", "update", "find"]).block_for(DELAY);
    let slow = slow.enable(server.uri()).await;
    let before = server.command_counts().await;
    let started = std::time::Instant::now();
    let held = all_granted(start(&leases, Duration::from_secs(120))).await;
    assert!(started.elapsed() > attempt, "it was not slow: {:?}", started.elapsed());
    drop(slow);
    assert_eq!(held.len(), CALLS);
    let sent = server.command_counts().await.since(&before);
    assert!(sent.find_and_modify < FEW, "{sent:?}");
    assert!(sent.update < FEW && sent.find < FEW, "{sent:?}");
    assert_eq!(leases.shutdown().await.released, CALLS);
}

/// The commands of a server that hangs are repeated in commands as large as they were.
#[tokio::test]
async fn calls_of_a_server_that_hangs_are_repeated_together() {
    const ATTEMPT: Duration = Duration::from_millis(500);
    let (server, database) = lent_database().await;
    let leases = builder(&database)
        .tuning(Tuning::default().attempt_timeout(ATTEMPT))
        .shutdown_timeout(PATIENCE)
        .build()
        .await
        .unwrap();
    // The connections are open when it stops.
    leases.acquire("before").await.unwrap().release().await.unwrap();
    let before = server.command_counts().await;
    server.mongod().pause();
    let calls = start(&leases, Duration::from_secs(120));
    // Meanwhile attempts are unanswered, and are repeated. A bounded call ends on time.
    let bounded = leases.acquire("bounded").wait(ATTEMPT * 4).await.unwrap_err();
    assert!(matches!(bounded, Error::WaitTimeout { .. }), "{bounded}");
    server.mongod().resume();
    let held = all_granted(calls).await;
    assert_eq!(held.len(), CALLS);
    let sent = server.command_counts().await.since(&before);
    assert!(sent.find_and_modify < FEW, "{sent:?}");
    assert!(sent.update < FEW && sent.find < FEW, "{sent:?}");
    assert_eq!(leases.shutdown().await.released, CALLS);
}

/// Calls whose time is over before they are sent say so, and leave nothing behind.
#[tokio::test]
async fn calls_that_are_never_sent_end_in_time_and_say_so() {
    const WAIT: Duration = Duration::from_millis(700);
    let (server, database, leases) = lent_setup().await;
    let slow = FailCommand::on(&["findAndModify", "update", "find"]).block_for(WAIT / 2);
    let slow = slow.enable(server.uri()).await;
    let before = server.command_counts().await;
    let answers = bounded(start(&leases, WAIT).join_all()).await;
    let (granted, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(failed.len() > CALLS / 2, "{} calls failed", failed.len());
    let is_unsent = |error: &Error| match error {
        Error::WaitTimeout { source, .. } => {
            source.as_ref().is_some_and(|source| source.to_string().contains("it sent nothing"))
        }
        other => panic!("{other}"),
    };
    let unsent =
        failed.iter().filter_map(|failed| failed.as_ref().err()).filter(|it| is_unsent(it));
    assert!(unsent.count() > CALLS / 2);
    let sent = server.command_counts().await.since(&before);
    assert!(sent.find_and_modify + sent.update + sent.find < FEW, "{sent:?}");
    drop(slow);
    // After the load, a call is answered as before.
    let lease = leases.try_acquire("after").await.unwrap().granted().expect("it is free");
    lease.release().await.unwrap();
    drop(granted);
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    let locks = database.collection::<Document>("locks");
    let left = locks.count_documents(doc! {}).await.unwrap();
    assert_eq!(left, 0, "a grant to a call that had gone was not given back");
}
