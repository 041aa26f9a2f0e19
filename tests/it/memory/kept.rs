//! The commands that keep leases and places in queues: when each is sent, and which names it has.

use std::collections::BTreeSet;
use std::time::Duration;

use mongo_lease::{
    CommandKind, Error, Lease, LeaseManager, LostReason, MemoryFault, MemoryStore, Tuning,
};

use super::manager;
use super::wire::{Hearing, Wire};
use crate::patience::pass;
use crate::permits::queued_by;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// How long an entry lasts: a heartbeat is due after 2 s, goes along with one that is due a second earlier, and is
/// repeated after half a second.
const LIFE: Duration = Duration::from_secs(6);

fn patient() -> Tuning {
    Tuning::default().recheck_every(HOUR).waiter_ttl(LIFE)
}

fn shown(seen: Vec<(u128, String)>) -> Vec<String> {
    seen.into_iter().map(|(at, names)| format!("{at} {names}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_blocked_document_has_heartbeats_of_its_own_until_it_is_written() {
    let (store, wire) = (MemoryStore::simulated(0, 1), Wire::new());
    let (holder, leases) = (manager(&store).await, wire.manager(&store, patient()).await);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        held.push(holder.acquire(name).ttl(HOUR).await.unwrap());
        waiting.push(queued_by(&leases, |leases| leases.acquire(name).wait_forever()).await);
    }
    pass(SECOND).await;
    wire.block(Some("b"));
    pass(SECOND * 7 / 4).await;
    wire.block(None);
    pass(SECOND * 3).await;
    let wanted =
        ["2000 a", "2000 abc", "2000 b", "2000 c", "2500 b", "3000 ac", "3000 b", "5000 abc"];
    assert_eq!(shown(wire.seen()), wanted);
}

#[tokio::test(start_paused = true)]
async fn refused_heartbeats_are_sent_again_together_and_soon() {
    let store = MemoryStore::new();
    let network = store.client();
    let builder = LeaseManager::in_memory(&network).tuning(patient());
    let (holder, leases) = (manager(&store).await, builder.build().await.unwrap());
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in ["a", "b"] {
        held.push(holder.acquire(name).ttl(HOUR).await.unwrap());
        waiting.push(queued_by(&leases, |leases| leases.acquire(name).wait_forever()).await);
    }
    for _ in 0..9 {
        network.fail_next(CommandKind::Heartbeat, MemoryFault::Refused);
    }
    for (passes, left) in [(1_999, 9), (2, 8), (498, 8), (2, 7), (500, 6)] {
        pass(Duration::from_millis(passes)).await;
        assert_eq!(network.faults_left(), left);
    }
}

/// The first call was admitted, and did not hear of it. No heartbeat was written beside its entry.
#[tokio::test(start_paused = true)]
async fn whose_entry_stood_beside_a_lost_one_has_another_heartbeat_soon() {
    let (store, wire) = (MemoryStore::simulated(0, 1), Wire::new());
    let (holder, leases) = (manager(&store).await, wire.manager(&store, patient()).await);
    let semaphore = holder.semaphore("a", 2);
    let held = [semaphore.acquire().ttl(HOUR).await, semaphore.acquire().ttl(HOUR).await];
    let [released, _held] = held.map(Result::unwrap);
    let ask = || leases.semaphore("a", 2).acquire().ttl(HOUR).wait_forever();
    let first = queued_by(&leases, |_| ask()).await;
    let _second = queued_by(&leases, |_| ask()).await;
    pass(SECOND).await;
    wire.hears(Hearing::Gone);
    released.release().await.unwrap();
    pass(SECOND * 2).await;
    assert!(first.is_finished());
    assert_eq!(shown(wire.seen()), ["2000 aa", "2000 aa?", "2500 a"]);
}

/// A transaction blocks the document `p` when the first renewals are due: until 2 s later, or to the end. A holder of
/// `p` whose own renewal is due after 20 s learns of both by those of the others.
#[tokio::test(start_paused = true)]
async fn the_leases_of_a_blocked_document_are_renewed_apart_until_it_is_written() {
    for (is_written, wanted) in [(true, ["pqr"].as_slice()), (false, &["p", "qr"])] {
        let (store, wire) = (MemoryStore::simulated(0, 1), Wire::new());
        let leases = wire.manager(&store, Tuning::default()).await;
        let acquire = async |name, secs| {
            let shared = leases.semaphore(name, 9).acquire().ttl(Duration::from_secs(secs));
            shared.await.unwrap()
        };
        let short = [acquire("p", 30).await, acquire("p", 30).await, acquire("q", 30).await];
        let long = [acquire("p", 60).await, acquire("r", 60).await];
        // One that is released is not renewed.
        leases.acquire("e").await.unwrap().release().await.unwrap();
        wire.block(Some("p"));
        pass(SECOND * 12).await;
        let first = wire.seen().into_iter().filter(|(at, _)| *at == 10_000);
        assert_eq!(first.map(|(_, names)| names).collect::<Vec<_>>(), ["pp", "ppq", "q"]);
        if is_written {
            wire.block(None);
        }
        pass(SECOND * 9).await;
        let then = wire.seen().into_iter().filter(|(at, _)| *at >= 18_000);
        let distinct = |names: String| names.chars().collect::<BTreeSet<_>>();
        let then: BTreeSet<String> =
            then.map(|(_, names)| distinct(names).into_iter().collect()).collect();
        assert!(then.iter().eq(wanted), "{then:?}");
        assert!(short.iter().chain(&long).all(Lease::is_valid));
    }
}

#[tokio::test(start_paused = true)]
async fn the_leases_beside_a_lost_one_are_renewed_at_once() {
    let (store, wire) = (MemoryStore::simulated(0, 1), Wire::new());
    let leases = wire.manager(&store, Tuning::default()).await;
    let other = manager(&store).await;
    let mut held = Vec::new();
    for name in ["p", "p", "p", "q"] {
        held.push(leases.semaphore(name, 9).acquire().await.unwrap());
    }
    let _exclusive = leases.acquire("e").await.unwrap();
    other.release("p", held[0].value()).await.unwrap();
    pass(SECOND * 11).await;
    assert_eq!(
        shown(wire.seen()),
        ["10000 e", "10000 pp", "10000 pppq", "10000 pppq?"],
        "one that is confirmed needs no look"
    );
    assert!(matches!(held.remove(0).check(), Err(Error::Lost { reason: LostReason::Removed, .. })));
    let valid = Duration::from_millis(29_700) - SECOND;
    assert!(held.iter().all(|lease| lease.remaining() == valid));
}
