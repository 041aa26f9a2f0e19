//! Many calls or leases of one manager: they share commands.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Attempt, Error, Event, Lease, LeaseManager, Tuning};
use mongo_lease_testbed::{CommandCounts, FailCommand, Server};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::batches::{CALLS, CONTESTED, answer, granted, names, start_calls, start_contest};
use crate::blocking::start_releases;
use crate::common::{builder, patient};
use crate::lent::{LentServer, lent_database};
use crate::patience::{Listener, MUCH_PATIENCE, PATIENCE, bounded, joined, locks, until};
use crate::spy::{spied, spied_at};

#[tokio::test]
async fn two_hundred_leases_are_acquired_and_released_in_few_commands() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    leases.acquire("before").await.unwrap().release().await.unwrap();
    let before = server.command_counts().await;
    let held = granted(start_calls(&leases, names("lease", 200))).await;
    let asked = server.command_counts().await.since(&before);
    // Each alone, they would be two hundred. A machine that is slow to answer a batch makes the next ones smaller.
    assert!(asked.find_and_modify + asked.update + asked.find <= 40, "{asked:?}");
    assert_eq!(asked.insert + asked.aggregate + asked.delete, 0, "{asked:?}");

    let before = server.command_counts().await;
    for released in joined(start_releases(held)).await {
        released.unwrap();
    }
    let ended = server.command_counts().await.since(&before);
    // A statement each.
    assert!(ended.deleted >= 200, "{ended:?}");
    assert!(ended.delete + ended.update + ended.find <= 40, "{ended:?}");
    assert_eq!((ended.insert, ended.aggregate, ended.find_and_modify), (0, 0, 0), "{ended:?}");
}

#[tokio::test]
async fn many_calls_for_one_lease_are_few_commands() {
    let (server, database) = lent_database().await;
    let before = server.command_counts().await;
    let mut held = Vec::new();
    for call in start_contest(&server, &database).await {
        if let Attempt::Granted(lease) = answer(call).await {
            held.push(lease);
        }
    }
    let counts = server.command_counts().await.since(&before);
    assert_eq!(held.len(), CONTESTED);
    let commands = counts.find_and_modify + counts.update + counts.find;
    assert!(commands < 100, "{counts:?}");
}

#[tokio::test]
async fn a_hundred_free_names_cost_few_commands() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("name:{number}")).collect();
    let before = server.command_counts().await;
    let set = leases.acquire_all(names).wait(PATIENCE).await.unwrap();
    let asked = server.command_counts().await.since(&before);
    // Each alone, they would be a hundred.
    assert!(asked.find_and_modify + asked.update + asked.find <= 30, "{asked:?}");
    let before = server.command_counts().await;
    set.release().await.unwrap();
    let ended = server.command_counts().await.since(&before);
    assert!(ended.delete <= 15, "{ended:?}");
    assert!(ended.deleted >= 100, "{ended:?}");
}

#[tokio::test]
async fn without_majority_reads_each_call_is_one_command() {
    let (server, database) = lent_database().await;
    let (leases, spy) = spied_at(&server, &database, patient).await;
    let refused = FailCommand::on(&["find"]).error_code(148).enable(server.uri()).await;
    let _first = granted(start_calls(&leases, names("first", CALLS))).await;
    // The manager remembers: calls go alone, and nothing has to be read.
    spy.names();
    let _second = granted(start_calls(&leases, names("second", CALLS))).await;
    assert_eq!(spy.names(), vec!["findAndModify"; CALLS]);
    refused.disable().await;
}

// It takes 15 s: 2,000 grants, each a journalled write, and two periods.
#[tokio::test]
async fn two_thousand_leases_are_renewed_by_few_commands() {
    const TTL: Duration = Duration::from_secs(18);
    let (server, database) = lent_database().await;
    let tuning = Tuning::default().max_in_flight(20).attempt_timeout(TTL / 2);
    let leases = builder(&database).tuning(tuning);
    let leases = leases.shutdown_timeout(MUCH_PATIENCE).build().await.unwrap();
    let acquire = |number| leases.acquire(format!("lease:{number}")).ttl(TTL).wait(MUCH_PATIENCE);
    let held = try_join_all((0..2_000).map(|number| acquire(number).into_future())).await.unwrap();

    let before = server.command_counts().await;
    let (started, ends) = (Instant::now(), first_end(&database).await.timestamp_millis());
    let later = async || {
        let now = first_end(&database).await.timestamp_millis();
        (now >= ends + 12_000).then_some(())
    };
    until("each lease was renewed for two periods", later).await;
    let updates = (server.command_counts().await - before).update;
    let periods = started.elapsed().as_secs() / (TTL / 3).as_secs() + 1;

    assert!(held.iter().all(Lease::is_valid), "some were lost");
    // One batch for their number, and more for their times: leases that were granted within a sixteenth of a period
    // join one batch, and stay in it.
    assert!(updates <= periods * (1 + 16), "{updates} commands in {periods} periods");
    assert!(updates >= 2, "nothing was renewed");
    assert_eq!(leases.shutdown().await.released, 2_000);
}

/// When the first of all leases ends.
async fn first_end(database: &Database) -> DateTime {
    let first = locks(database).find_one(doc! {}).sort(doc! { "expiresAt": 1 }).await.unwrap();
    *first.unwrap().get_datetime("expiresAt").unwrap()
}

#[tokio::test]
async fn a_hundred_permits_are_renewed_by_few_commands() {
    let (_database, leases, spy) = spied(|builder| builder.ttl(Duration::from_secs(12))).await;
    let acquire = |number: i32| leases.semaphore(format!("name:{}", number % 40), 5).acquire();
    let acquires = (0..100).map(|number| acquire(number).into_future());
    let held: Vec<Lease> = bounded(try_join_all(acquires)).await.unwrap();
    let mut events = Listener::of(&leases);
    spy.names();
    let started = Instant::now();
    events.times(100, |event| matches!(event, Event::Renewed { .. })).await;
    let renewals = spy.names().iter().filter(|name| *name == "update").count();
    // However long the grants took: each command renews what is due within a sixteenth of the period, a third of the
    // ttl. One for each permit would be a hundred in a period.
    let periods = 1 + started.elapsed().as_secs() / 4;
    assert!(renewals as u64 <= 17 * periods, "{renewals} renewals in {periods} periods");
    assert!(held.iter().all(Lease::is_valid));
}

/// More calls of one process than the server carries out: they wait in the process, and what is sent does not grow.
const OVERLOAD: usize = 5_000;

/// Full acquires, each of which is a command. A few calls may need one; of the calls that wait, none may.
const FEW: u64 = OVERLOAD as u64 / 10;

/// Starts so many calls at once, each for a name of its own.
fn start(leases: &LeaseManager) -> JoinSet<Result<Lease, Error>> {
    let mut calls = JoinSet::new();
    for number in 0..OVERLOAD {
        let acquire = leases.acquire(format!("lease:{number}")).wait(MUCH_PATIENCE);
        calls.spawn(acquire.into_future());
    }
    calls
}

/// A server that no other test uses, what it has carried out so far, and a manager with this time for an attempt.
async fn overloaded(attempt: Duration) -> (LentServer, CommandCounts, LeaseManager) {
    let (server, database) = lent_database().await;
    let tuning = Tuning::default().attempt_timeout(attempt);
    // No lease is renewed within a test: renewals of thousands count as commands.
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
    let started = Instant::now();
    let _held = granted_by_few(start(&leases), &server, &before).await;
    assert!(started.elapsed() > attempt, "it was not slow: {:?}", started.elapsed());
    drop(slow);
    assert_eq!(leases.shutdown().await.released, OVERLOAD);
}

#[tokio::test]
async fn calls_of_a_server_that_hangs_are_repeated_together() {
    const ATTEMPT: Duration = Duration::from_secs(2);
    let (server, before, leases) = overloaded(ATTEMPT).await;
    server.mongod().pause();
    let calls = start(&leases);
    // Meanwhile attempts are unanswered, and are repeated. A bounded call ends on time.
    let error = leases.acquire("bounded").wait(ATTEMPT * 4).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    server.mongod().resume();
    let _held = granted_by_few(calls, &server, &before).await;
    assert_eq!(leases.shutdown().await.released, OVERLOAD);
}
