//! The commands of calls for permits, and of writers beside them.

use std::collections::BTreeSet;
use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, Event, LeaseManager, Released, Tuning};
use mongo_lease_testbed::TestDatabase;

use crate::common::{TryOnce, builder, patient};
use crate::patience::{Listener, until};
use crate::rounds::undisturbed;
use crate::spy::{Spy, spied};
use crate::waiters::{all_granted, granted, permits, queued_by, reader, writer};

/// A manager whose commands are heard, and another one.
pub(crate) async fn setup() -> (TestDatabase, LeaseManager, LeaseManager, Spy) {
    let (database, ours, spy) = spied(patient).await;
    let others = patient(builder(&database)).build().await.unwrap();
    (database, ours, others, spy)
}

#[tokio::test]
async fn a_lone_permit_costs_one_command_each_way() {
    let (_database, leases, others, spy) = setup().await;
    let pair = async |acquire: &dyn Fn(&LeaseManager) -> Acquire| {
        let pair = async || {
            let held = acquire(&leases).await.unwrap();
            assert_eq!(held.release().await.unwrap(), Released::Released);
        };
        undisturbed(&spy, pair).await
    };
    assert_eq!(pair(&permits(1, 2)).await, ["findAndModify", "delete"]);
    assert_eq!(pair(&reader).await, ["findAndModify", "delete"]);
    // Beside others too, and then no document is deleted.
    let _other = permits(1, 2)(&others).await.unwrap();
    assert_eq!(pair(&permits(1, 2)).await, ["findAndModify", "update"]);
    // A refused attempt is one command as well.
    let refused = async || assert!(!permits(2, 2)(&leases).try_once().await.unwrap().is_granted());
    assert_eq!(undisturbed(&spy, refused).await, ["findAndModify"]);
}

/// An exclusive lease is one permit under the limit 1.
#[tokio::test]
async fn a_limit_of_one_sends_the_commands_of_exclusive_leases() {
    let exclusive = sent_for(writer).await;
    let limited = sent_for(permits(1, 1)).await;
    assert_eq!(exclusive, limited);
    // Two forms of an acquire, a renewal, a delete, and the end of a grant that may have waiters.
    assert_eq!(exclusive.len(), 5, "{exclusive:#?}");
}

/// The commands of a manager of its own: a renewed and released lease, and one that is waited for and released. Each
/// once: how often one is repeated is nothing to the forms.
async fn sent_for(acquire: impl Fn(&LeaseManager) -> Acquire) -> BTreeSet<String> {
    let (_database, leases, others, spy) = setup().await;
    let lease = acquire(&leases).renew(false).await.unwrap();
    assert!(!lease.is_shared());
    lease.renew().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let held = others.acquire("a").renew(false).await.unwrap();
    let call = queued_by(&leases, |leases| acquire(leases).renew(false)).await;
    held.release().await.unwrap();
    assert_eq!(granted(call).await.release().await.unwrap(), Released::Released);
    let is_about_a_lease = |name: &str| !["ping", "aggregate", "getMore"].contains(&name);
    let sent = spy.commands().into_iter().filter(|(name, _)| is_about_a_lease(name));
    sent.map(|(_, command)| without_ids(command)).collect()
}

/// The command without what the driver adds, and with a sign in place of each id and each time.
fn without_ids(mut command: Document) -> String {
    for driver in ["lsid", "$clusterTime", "$db", "maxTimeMS", "txnNumber"] {
        command.remove(driver);
    }
    let text = command.to_string();
    let is_part_of_id = |letter: char| letter.is_ascii_hexdigit() || "-.".contains(letter);
    let mut shape = String::new();
    for part in text.split_inclusive(|letter| !is_part_of_id(letter)) {
        let (run, end) = part.split_at(part.trim_end_matches(|it| !is_part_of_id(it)).len());
        let is_id = run.len() >= 8 && run.contains(|letter: char| letter.is_ascii_digit());
        shape.push_str(if is_id { "#" } else { run });
        shape.push_str(end);
    }
    shape
}

/// The most calls of one process that have entries of their own.
const CALLS: usize = 16;
/// A heartbeat is due each second.
const WAITER_TTL: Duration = Duration::from_secs(3);

/// No call polls while a test lasts.
const FLOOR: Duration = Duration::from_secs(60);

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
    let tuning = Tuning::default().waiter_ttl(WAITER_TTL).recheck_every(FLOOR);
    let (database, leases, spy) = spied(|builder| builder.tuning(tuning)).await;
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
    writing.release().await.unwrap();
    all_granted(calls).await;
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
