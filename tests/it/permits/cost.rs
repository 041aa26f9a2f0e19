//! The cost of many waiting calls of one process for the server.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{
    CommandKind, Event, Lease, LeaseManager, MemoryFault, MemoryStore, Result, Tuning,
};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinHandle;

use super::{granted, queued_by};
use crate::common::{builder, document, migrated};
use crate::patience::{Listener, bounded, locks, pass, until};
use crate::spy::Spy;

/// The most calls of one process that have entries of their own.
const CALLS: usize = 16;
/// A heartbeat is due each second.
const WAITER_TTL: Duration = Duration::from_secs(3);

/// Readers of one process that wait for a writer.
struct Waiting {
    database: TestDatabase,
    writer: Lease,
    events: Listener,
    spy: Spy,
    calls: Vec<JoinHandle<Result<Lease>>>,
}

impl Waiting {
    async fn start() -> Waiting {
        let server = Server::shared();
        let database = migrated(server).await;
        let writer = builder(&database).build().await.unwrap().acquire("a").await.unwrap();
        let (client, spy) = Spy::client(server).await;
        // So that no call polls while a test lasts.
        let floor = Duration::from_secs(60);
        let leases = LeaseManager::builder(&database.through(&client));
        let tuning = Tuning::default().waiter_ttl(WAITER_TTL).recheck_every(floor);
        let leases = leases.tuning(tuning).build().await.unwrap();
        let mut events = Listener::of(&leases);
        let long = Duration::from_secs(300);
        let reader = |leases: &LeaseManager| leases.acquire("a").shared().wait(long);
        let mut calls = vec![queued_by(&leases, reader).await];
        events.watching().await;
        while calls.len() < CALLS {
            calls.push(queued_by(&leases, reader).await);
        }
        let waiting = Waiting { database, writer, events, spy, calls };
        until("all have a heartbeat in common", async || {
            waiting.spy.commands().iter().any(|sent| entries(sent) == CALLS).then_some(())
        })
        .await;
        waiting
    }

    /// The commands that are sent from now on, up to one of them.
    async fn sent_until(&self, is_last: impl Fn(&(String, Document)) -> bool) -> Sent {
        let mut sent = self.spy.commands();
        while !sent.iter().any(&is_last) {
            let more = async || {
                let more = self.spy.commands();
                (!more.is_empty()).then_some(more)
            };
            sent.extend(until("another command", more).await);
        }
        sent
    }

    async fn end(self) {
        self.writer.release().await.unwrap();
        for call in self.calls {
            assert!(granted(call).await.is_valid());
        }
    }
}

type Sent = Vec<(String, Document)>;

/// For how many entries of one lease this command is a heartbeat.
fn entries((name, command): &(String, Document)) -> usize {
    let statement = || match command.get_array("updates").ok()?.as_slice() {
        [statement] => statement.as_document()?.get_document("q").ok(),
        _ => None,
    };
    let wanted = || statement()?.get_document("queue.value").ok()?.values().next()?.as_array();
    if name == "update" { wanted().map_or(0, Vec::len) } else { 0 }
}

/// Whether this is an attempt to acquire.
fn is_attempt((name, command): &(String, Document)) -> bool {
    name == "findAndModify" && command.get_bool("upsert").is_ok_and(|upsert| upsert)
}

/// An attempt of one of them admits all who fit, and a heartbeat says whether all entries are still there.
#[tokio::test]
async fn waiting_calls_of_one_process_recheck_by_one_of_them() {
    let mut waiting = Waiting::start().await;
    let mut sent = Vec::new();
    for measured in 1.. {
        waiting.events.so_far();
        sent.clear();
        for _ in 0..6 {
            sent.extend(waiting.sent_until(|sent| sent.0 == "update").await);
        }
        // On a busy machine the stream may fail for a moment, and then all send attempts.
        let is_polling = |event: &Event| matches!(event, Event::Polling { .. });
        if !waiting.events.so_far().iter().any(is_polling) {
            break;
        }
        assert!(measured < 5, "the stream does not work");
    }
    let count = |is_wanted: fn(&(String, Document)) -> bool| {
        sent.iter().filter(|sent| is_wanted(sent)).count()
    };
    let heartbeats = count(|sent| sent.0 == "update");
    let (attempts, looks) = (count(is_attempt), count(|sent| sent.0 == "find"));
    eprintln!("{heartbeats} heartbeats, {looks} looks, {attempts} attempts");
    assert_eq!(count(|sent| entries(sent) == CALLS), heartbeats, "{sent:?}");
    // Two waiter ttls. Each call for itself would send two attempts.
    assert!(attempts <= 6, "{attempts} attempts");
    assert!(looks <= 1, "{looks} looks");
    waiting.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_call_rechecks_when_the_first_gives_up() {
    let store = MemoryStore::new();
    let writer = LeaseManager::in_memory(&store).build().await.unwrap().acquire("a").await.unwrap();
    let floor = Duration::from_secs(60);
    let leases = LeaseManager::in_memory(&store)
        .tuning(Tuning::default().waiter_ttl(WAITER_TTL).recheck_every(floor));
    let leases = leases.build().await.unwrap();
    let mut events = Listener::of(&leases);
    let reader = |leases: &LeaseManager| leases.acquire("a").shared().wait(60 * floor);
    let first = queued_by(&leases, reader).await;
    events.watching().await;
    let next = queued_by(&leases, reader).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    // Its own next attempt would be due after two floors.
    pass(floor * 3 / 2).await;
    assert_eq!(store.faults_left(), 0, "no attempt was sent");
    writer.release().await.unwrap();
    assert!(granted(next).await.is_valid());
}

#[tokio::test]
async fn an_entry_that_has_gone_stops_no_heartbeat_of_others() {
    let waiting = Waiting::start().await;
    let queue = async || {
        let document = document(&waiting.database, "a").await.unwrap();
        let queue = document.get_array("queue").unwrap().clone();
        let entry = |entry: Bson| {
            let entry = entry.as_document().unwrap();
            let value = entry.get_str("value").unwrap().to_owned();
            (value, *entry.get_datetime("heartbeatAt").unwrap())
        };
        queue.into_iter().map(entry).collect::<Vec<_>>()
    };
    let before = queue().await;
    assert_eq!(before.len(), CALLS);
    let first_gone = doc! { "$pop": { "queue": -1 } };
    let is_changed = locks(&waiting.database).update_one(doc! { "name": "a" }, first_gone).await;
    assert_eq!(is_changed.unwrap().modified_count, 1);
    bounded(waiting.sent_until(|sent| entries(sent) == CALLS - 1)).await;
    let last = before.iter().map(|(_, beat_at)| *beat_at).max().unwrap();
    let after = until("all are in the queue, and have had a heartbeat", async || {
        let after = queue().await;
        let is_complete = after.len() == CALLS && after.iter().all(|entry| entry.1 > last);
        is_complete.then_some(after)
    })
    .await;
    // The others have kept their places.
    let values = |entries: &[(String, _)]| -> Vec<String> {
        entries.iter().map(|entry| entry.0.clone()).collect()
    };
    assert_eq!(values(&after[..CALLS - 1]), values(&before[1..]));
    waiting.end().await;
}
