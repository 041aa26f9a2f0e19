//! Many waiting calls of one process.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease::{Acquire, CommandKind, LeaseManager, MemoryFault, MemoryStore, Tuning};

use super::{all_granted, dropped, granted, queued_by, reader};
use crate::common::{builder, document, setup};
use crate::patience::{Listener, locks, pass, until};

/// The most calls of one process that have entries of their own.
const CALLS: usize = 16;
/// A heartbeat is due every two seconds.
const WAITER_TTL: Duration = Duration::from_secs(6);

/// No call polls while a test lasts.
const FLOOR: Duration = Duration::from_secs(60);

fn told_only() -> Tuning {
    Tuning::default().waiter_ttl(WAITER_TTL).recheck_every(FLOOR)
}

fn patient_reader(leases: &LeaseManager) -> Acquire {
    reader(leases).wait(60 * FLOOR)
}

/// Each entry has the heartbeat, and one that has gone is missed although the others are there.
#[tokio::test]
async fn all_come_back_when_one_entry_has_gone() {
    let (database, leases) = setup().await;
    let writing = leases.acquire("a").await.unwrap();
    let waiting = builder(&database).tuning(told_only()).build().await.unwrap();
    let mut calls = Vec::new();
    while calls.len() < CALLS {
        calls.push(queued_by(&waiting, patient_reader).await);
    }
    // These wait in their process.
    calls.extend((0..4).map(|_| tokio::spawn(patient_reader(&waiting).into_future())));
    let beats = async || {
        let queue = document(&database, "a").await.unwrap().get_array("queue").unwrap().clone();
        let heartbeat_at =
            |it: &Bson| *it.as_document().unwrap().get_datetime("heartbeatAt").unwrap();
        queue.iter().map(heartbeat_at).collect::<Vec<_>>()
    };
    let newest = beats().await.into_iter().max().unwrap();
    // The last one: the first call sends attempts in any case.
    let gone = doc! { "$pop": { "queue": 1 } };
    let gone = locks(&database).update_one(doc! { "name": "a" }, gone).await.unwrap();
    assert_eq!(gone.modified_count, 1);
    let all = async || {
        let beats = beats().await;
        (beats.len() == CALLS && beats.iter().all(|beat| *beat > newest)).then_some(())
    };
    until("all are in the queue and have had a heartbeat", all).await;
    writing.release().await.unwrap();
    all_granted(calls).await;
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
