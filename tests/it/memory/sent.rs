//! The commands that each call sends, in their order, when the database answers at once or not as wished.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease::simulated::SimulatedAnswer;
use mongo_lease::{Acquire, LeaseManager, MemoryStore, Tuning};

use super::manager;
use super::wire::Wire;
use crate::common::assert_done;
use crate::patience::pass;
use crate::permits::{granted, queued_by};

const SECOND: Duration = Duration::from_secs(1);

/// A store, and a manager behind a connection to it.
pub(super) async fn apart() -> (MemoryStore, Arc<Wire>, LeaseManager) {
    let store = MemoryStore::new();
    let (wire, leases) = behind_a_wire(&store).await;
    (store, wire, leases)
}

async fn behind_a_wire(store: &MemoryStore) -> (Arc<Wire>, LeaseManager) {
    let wire = Wire::new();
    let leases = wire.manager(store, Tuning::default()).await;
    wire.sent();
    (wire, leases)
}

#[tokio::test(start_paused = true)]
async fn each_acquire_and_each_release_is_one_command() {
    let (_store, wire, leases) = apart().await;
    for (what, acquire, sent) in [
        ("new", leases.acquire("a"), "FastAcquire"),
        ("again", leases.acquire("a"), "FastAcquire"),
        ("bounded", leases.acquire("a").wait(SECOND), "FastAcquire"),
        ("own value", leases.acquire("a").value("mine"), "SlowAcquire"),
        ("permit", leases.semaphore("b", 2).acquire(), "FastAdmit"),
        ("reader", leases.acquire("c").shared(), "FastAdmit"),
        ("own value of a reader", leases.acquire("c").shared().value("mine"), "SlowAcquire"),
    ] {
        let lease = acquire.await.unwrap();
        assert_eq!(wire.sent(), [sent], "{what}");
        assert_done(lease.release().await.unwrap(), what);
        assert_eq!(wire.sent(), ["Delete"], "{what}");
    }
    pass(60 * SECOND).await;
    assert_eq!(wire.sent(), [""; 0]);
}

/// A call that may wait asks in full at once where it is likely to wait.
#[tokio::test(start_paused = true)]
async fn a_call_for_a_lease_that_was_busy_asks_in_full() {
    let (store, wire, leases) = apart().await;
    let other = manager(&store).await;
    let held = other.acquire("a").await.unwrap();
    for _ in 0..2 {
        assert!(!leases.try_acquire("a").await.unwrap().is_granted());
        pass(SECOND).await;
        assert_eq!(wire.sent(), ["FastAcquire"]);
    }
    let (unknowing, without_history) = behind_a_wire(&store).await;
    for (wire, leases, sent) in [
        (&unknowing, &without_history, &["FastAcquire", "SlowAcquire", "Ping"][..]),
        (&wire, &leases, &["SlowAcquire", "Ping"]),
    ] {
        leases.acquire("a").wait(SECOND).await.unwrap_err();
        assert_eq!(wire.sent(), sent);
        pass(SECOND).await;
        assert_eq!(wire.sent(), ["End"], "it leaves the queue");
    }
    held.release().await.unwrap();
    for sent in ["SlowAcquire", "FastAcquire"] {
        let lease = leases.acquire("a").wait(SECOND).await.unwrap();
        assert_eq!(wire.sent(), [sent]);
        assert_done(lease.release().await.unwrap(), sent);
        wire.sent();
    }
}

fn of_kind(kind: &str, leases: &LeaseManager) -> Acquire {
    match kind {
        "exclusive" => leases.acquire("a"),
        "permit" => leases.semaphore("a", 2).acquire(),
        _ => leases.acquire("a").value("mine"),
    }
}

/// A kind of calls, how their first command fails and whether it is carried out, and what is sent in each case.
type Failed = (
    &'static str,
    SimulatedAnswer,
    bool,
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

/// The first command of a call fails. `goes_on` is all that it sends until it is granted the lease, and `ends` is sent
/// when that is dropped: the release, and for another grant that the call may still get. `given_back` is sent when the
/// call is dropped instead.
#[tokio::test(start_paused = true)]
async fn a_call_whose_first_command_fails_sends_another_or_gives_back_what_it_may_have() {
    const ADMIT: &str = "FastAdmit";
    const FAST: &str = "FastAcquire";
    const FULL: &str = "SlowAcquire";
    let (none, broke) = (SimulatedAnswer::NoPrimary, SimulatedAnswer::ConnectionBroke);
    let late = SimulatedAnswer::NoMajority;
    let table: [Failed; 11] = [
        ("exclusive", none, false, &[FAST, FAST], "Delete", &[]),
        (
            "exclusive",
            broke,
            false,
            &[FAST, FAST],
            "3 Delete, FindLeases, 2 End",
            &["Delete", "End"],
        ),
        ("exclusive", broke, true, &[FAST, FAST, FULL], "3 Delete, FindLeases, 2 End", &["Delete"]),
        ("exclusive", late, true, &[FAST, "FindWritten"], "Delete", &["Delete"]),
        ("permit", none, false, &[ADMIT, FULL], "Delete", &[]),
        ("permit", broke, false, &[ADMIT, FULL], "End, Delete", &["End"]),
        ("permit", broke, true, &[ADMIT, FULL], "End, Delete", &["End"]),
        ("permit", late, true, &[ADMIT, "FindWritten"], "Delete", &["Delete"]),
        ("value", none, false, &[FULL, FULL], "Delete", &[]),
        ("value", broke, false, &[FULL, FULL], "3 Delete, FindLeases, 2 End", &["Delete", "End"]),
        ("value", broke, true, &[FULL, FULL], "3 Delete, FindLeases, 2 End", &["Delete"]),
    ];
    for (kind, answer, is_carried_out, goes_on, ends, given_back) in table {
        let what = format!("{kind}, {answer:?}, carried out: {is_carried_out}");
        let (_store, wire, leases) = apart().await;
        wire.plan(goes_on[0], is_carried_out, answer);
        let lease = of_kind(kind, &leases).await.unwrap();
        assert_eq!(wire.sent(), goes_on, "{what}");
        drop(lease);
        pass(SECOND).await;
        assert_eq!(counted(&wire.sent()), ends, "{what}");

        let (store, wire, leases) = apart().await;
        wire.plan(goes_on[0], is_carried_out, answer);
        let call = tokio::spawn(of_kind(kind, &leases).into_future());
        until_answered(&wire, goes_on[0]).await;
        call.abort();
        // It may have the lease already.
        drop(call);
        pass(SECOND).await;
        assert_eq!(wire.sent(), given_back, "{what}");
        assert_eq!(store.leases_in_use(), 0, "{what}");
    }
}

/// It is in no queue. For an exclusive lease the release of the whole document comes first.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_that_does_not_wait_ends_what_it_may_have() {
    for (name, given_back) in [("FastAcquire", &["Delete"][..]), ("FastAdmit", &["End", "Delete"])]
    {
        let (store, wire, leases) = apart().await;
        let semaphore = leases.semaphore("a", 2);
        wire.plan(name, true, SimulatedAnswer::ConnectionBroke);
        let call = tokio::spawn(async move {
            match name {
                "FastAcquire" => leases.try_acquire("a").await,
                _ => semaphore.try_acquire().await,
            }
        });
        until_answered(&wire, name).await;
        call.abort();
        pass(SECOND).await;
        assert_eq!(wire.sent(), given_back);
        assert_eq!(store.leases_in_use(), 0);
    }
}

/// The first attempt is carried out, and another one brings its grant before it is known to have failed.
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_an_attempt_ends_no_lease_that_another_one_has_brought() {
    for (kind, name) in
        [("exclusive", "FastAcquire"), ("permit", "FastAdmit"), ("value", "SlowAcquire")]
    {
        let (_store, wire, leases) = apart().await;
        wire.plan_after(25 * SECOND, name, true, SimulatedAnswer::ConnectionBroke);
        let lease = of_kind(kind, &leases).await.unwrap();
        assert!(wire.sent().len() > 1, "{kind}");
        pass(120 * SECOND).await;
        assert!(lease.is_valid(), "{kind}");
        assert_done(lease.release().await.unwrap(), kind);
    }
}

/// Lets the tasks run until the first command is answered.
async fn until_answered(wire: &Wire, name: &str) {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(wire.sent().first(), Some(&name));
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_shows_the_waiter_its_expiry() {
    let (store, wire, leases) = apart().await;
    let held = manager(&store).await.acquire("a").await.unwrap();
    let waiting = queued_by(&leases, |leases| leases.acquire("a").wait_forever()).await;
    wire.sent();
    held.release().await.unwrap();
    let lease = granted(waiting).await;
    assert_eq!(wire.sent(), [""; 0], "it is told");
    assert!(lease.expires_at() > store.now());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_waits_for_the_release_of_a_lease_that_was_dropped() {
    let (_store, wire, leases) = apart().await;
    for _ in 0..3 {
        let lease = leases.acquire("a").await.unwrap();
        wire.sent();
        drop(lease);
        let next = leases.acquire("a").await.unwrap();
        assert_eq!(wire.sent(), ["Delete", "FastAcquire"]);
        assert_done(next.release().await.unwrap(), "the next");
    }
}

/// How often each command was sent, in the order of the first ones.
pub(super) fn counted(sent: &[&str]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in sent.iter().filter(|name| **name != "Ping") {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let times = |name: &&str| sent.iter().filter(|it| *it == name).count();
    let each = |name: &&str| match times(name) {
        1 => (*name).to_owned(),
        times => format!("{times} {name}"),
    };
    names.iter().map(each).collect::<Vec<_>>().join(", ")
}
