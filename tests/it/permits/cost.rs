//! The cost of many waiting calls of one process for the server.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{Acquire, CommandKind, Event, LeaseManager, MemoryFault, MemoryStore, Tuning};
use mongo_lease_testbed::TestDatabase;

use super::{all_granted, dropped, granted, queued_by, reader};
use crate::common::{builder, document};
use crate::patience::{Listener, locks, pass, until};
use crate::spy::{Spy, spied};

/// The most calls of one process that have entries of their own.
const CALLS: usize = 16;
/// A heartbeat is due each second.
const WAITER_TTL: Duration = Duration::from_secs(3);

/// No call polls while a test lasts.
const FLOOR: Duration = Duration::from_secs(60);

fn told_only() -> Tuning {
    Tuning::default().waiter_ttl(WAITER_TTL).recheck_every(FLOOR)
}

fn patient_reader(leases: &LeaseManager) -> Acquire {
    reader(leases).wait(60 * FLOOR)
}

type Sent = (String, Document);

/// For how many entries of one lease this command is a heartbeat.
fn entries((name, command): &Sent) -> usize {
    let statement = || match command.get_array("updates").ok()?.as_slice() {
        [statement] => statement.as_document()?.get_document("q").ok(),
        _ => None,
    };
    let wanted = || statement()?.get_document("queue.value").ok()?.values().next()?.as_array();
    if name == "update" { wanted().map_or(0, Vec::len) } else { 0 }
}

/// Whether this is an attempt to acquire.
fn is_attempt((name, command): &Sent) -> bool {
    name == "findAndModify" && command.get_bool("upsert").is_ok_and(|upsert| upsert)
}

/// An attempt of one of them admits all who fit, and a heartbeat says whether all entries are still there.
#[tokio::test]
async fn waiting_calls_of_one_process_recheck_by_one_of_them() {
    let (database, leases, spy) = spied(|builder| builder.tuning(told_only())).await;
    let writing = builder(&database).build().await.unwrap().acquire("a").await.unwrap();
    let mut events = Listener::of(&leases);
    let mut calls = vec![queued_by(&leases, patient_reader).await];
    events.watching().await;
    while calls.len() < CALLS {
        calls.push(queued_by(&leases, patient_reader).await);
    }
    // These wait in their process.
    calls.extend((0..4).map(|_| tokio::spawn(patient_reader(&leases).into_future())));
    until("all have a heartbeat in common", async || {
        spy.commands().iter().any(|sent| entries(sent) == CALLS).then_some(())
    })
    .await;
    let mut sent = Vec::new();
    for measured in 1.. {
        drop((events.so_far(), spy.failures()));
        sent.clear();
        for _ in 0..6 {
            sent.extend(sent_up_to_a_heartbeat(&spy).await);
        }
        // On a busy machine the stream may fail for a moment, and then all send attempts; or a command is cut off.
        let is_polling = |event: &Event| matches!(event, Event::Polling { .. });
        if spy.failures().is_empty() && !events.so_far().iter().any(is_polling) {
            break;
        }
        assert!(measured < 5, "the stream does not work, or commands fail");
    }
    let count = |is_wanted: fn(&Sent) -> bool| sent.iter().filter(|sent| is_wanted(sent)).count();
    let heartbeats = count(|sent| sent.0 == "update");
    let (attempts, looks) = (count(is_attempt), count(|sent| sent.0 == "find"));
    assert_eq!(count(|sent| entries(sent) == CALLS), heartbeats, "{sent:?}");
    // Two waiter ttls. Each call for itself would send two attempts.
    assert!(attempts <= 6, "{attempts} attempts");
    assert!(looks <= 1, "{looks} looks");
    all_come_back_when_one_has_gone(&database).await;
    writing.release().await.unwrap();
    all_granted(calls).await;
}

/// Each entry has the heartbeat, and one that has gone is missed although the others are there.
async fn all_come_back_when_one_has_gone(database: &TestDatabase) {
    let beats = async || {
        let queue = document(database, "a").await.unwrap().get_array("queue").unwrap().clone();
        let heartbeat_at =
            |it: &Bson| *it.as_document().unwrap().get_datetime("heartbeatAt").unwrap();
        queue.iter().map(heartbeat_at).collect::<Vec<_>>()
    };
    let newest = beats().await.into_iter().max().unwrap();
    // The last one: the first call sends attempts in any case.
    let gone = doc! { "$pop": { "queue": 1 } };
    let gone = locks(database).update_one(doc! { "name": "a" }, gone).await.unwrap();
    assert_eq!(gone.modified_count, 1);
    let all = async || {
        let beats = beats().await;
        (beats.len() == CALLS && beats.iter().all(|beat| *beat > newest)).then_some(())
    };
    until("all are in the queue and have had a heartbeat", all).await;
}

/// The commands that are sent from now on, up to a heartbeat.
async fn sent_up_to_a_heartbeat(spy: &Spy) -> Vec<Sent> {
    let mut sent = spy.commands();
    while !sent.iter().any(|(name, _)| name == "update") {
        let more = async || Some(spy.commands()).filter(|more| !more.is_empty());
        sent.extend(until("another command", more).await);
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn the_next_call_rechecks_when_the_first_gives_up() {
    let store = MemoryStore::new();
    let writer = LeaseManager::in_memory(&store).build().await.unwrap().acquire("a").await.unwrap();
    let leases = LeaseManager::in_memory(&store).tuning(told_only()).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let first = queued_by(&leases, patient_reader).await;
    events.watching().await;
    let next = queued_by(&leases, patient_reader).await;
    dropped(first).await;
    store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    // Its own next attempt would be due after two floors.
    pass(FLOOR * 3 / 2).await;
    assert_eq!(store.faults_left(), 0, "no attempt was sent");
    writer.release().await.unwrap();
    assert!(granted(next).await.is_valid());
}
