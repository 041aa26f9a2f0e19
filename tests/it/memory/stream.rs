//! The change stream of a manager, beside a database that is away again and again, or a pool that is too small.

use std::time::Duration;

use mongo_lease::{Event, Lease, LeaseManager, MemoryStore, Result, Tuning};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::manager;
use super::wire::{Hearing, Wire};
use crate::common::assert_done;
use crate::patience::{Listener, pass};
use crate::permits::{granted, queued_by};

const HOUR: Duration = Duration::from_secs(3_600);
/// How long after the database has come back a stream is open, whatever was before: the longest delay, and the moment
/// until it is relied on.
const SOON: Duration = Duration::from_secs(12);
/// A read of the stream takes 10 s, and its ping follows after 250 ms.
const AT_A_PING: Duration = Duration::from_millis(9_900);

/// A lease in the store, and a call on another client that waits for it.
struct Contended {
    lease: Lease,
    leases: LeaseManager,
    waiting: JoinHandle<Result<Lease>>,
}

impl Contended {
    async fn on(store: &MemoryStore, client: &MemoryStore) -> Contended {
        let (holder, leases) = (manager(store).await, manager(client).await);
        let lease = holder.acquire("a").ttl(3 * HOUR).await.unwrap();
        let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
        Contended { lease, leases, waiting }
    }

    async fn ends_by_a_hand_off(self) {
        assert_done(self.lease.release().await.unwrap(), "handed off");
        assert!(self.waiting.await.unwrap().unwrap().is_valid());
    }
}

async fn is_open_soon(events: &mut Listener, outage: usize) {
    let open = tokio::time::timeout(SOON, events.watching()).await;
    assert!(open.is_ok(), "not after outage {outage}");
}

/// Each time no command gets through, neither with the stream nor without it: it is not in the way.
#[tokio::test(start_paused = true)]
async fn a_stream_is_open_soon_after_the_twentieth_outage() {
    let store = MemoryStore::new();
    let client = store.client();
    let contended = Contended::on(&store, &client).await;
    let mut events = Listener::of(&contended.leases);
    // The last ones end within the second in which a ping without the stream is waited for.
    for outage in 0..40 {
        is_open_soon(&mut events, outage).await;
        pass(AT_A_PING).await;
        let hang = client.hang();
        let reason = events.polling().await;
        assert!(reason.starts_with("no other command gets through"), "{reason}");
        if outage < 20 {
            pass(Duration::from_secs(3)).await;
        }
        drop(hang);
    }
    contended.ends_by_a_hand_off().await;
}

/// An opening that is not answered keeps its connection, or its place before one.
#[tokio::test(start_paused = true)]
async fn no_stream_is_asked_for_while_nothing_gets_through() {
    let store = MemoryStore::new();
    let client = store.client();
    let contended = Contended::on(&store, &client).await;
    let mut events = Listener::of(&contended.leases);
    is_open_soon(&mut events, 0).await;
    let hang = client.hang();
    pass(HOUR / 2).await;
    drop(hang);
    is_open_soon(&mut events, 1).await;
    assert_eq!(client.streams_asked_for(), 2);
    contended.ends_by_a_hand_off().await;
}

/// A stream keeps the only connection for a second each time, until it is found to be in the way.
#[tokio::test(start_paused = true)]
async fn a_pool_of_one_connection_is_tried_ever_more_rarely() {
    let store = MemoryStore::new();
    let client = store.client_with_connections(1);
    let contended = Contended::on(&store, &client).await;
    let mut events = Listener::of(&contended.leases);
    let reason = events.polling().await;
    assert!(reason.starts_with("no other command gets through"), "{reason}");
    pass(HOUR).await;
    let first_hour = client.streams_asked_for();
    pass(HOUR).await;
    let second_hour = client.streams_asked_for() - first_hour;
    assert!((12..=30).contains(&first_hour), "{first_hour}");
    // One in 225 s to 300 s.
    assert!((11..=16).contains(&second_hour), "{second_hour}");
    contended.ends_by_a_hand_off().await;
}

/// An event ends a read, and a ping has the connection then, which shows nothing of the next read.
#[tokio::test(start_paused = true)]
async fn events_do_not_hide_that_a_pool_of_one_connection_is_too_small() {
    let store = MemoryStore::new();
    let client = store.client_with_connections(1);
    let contended = Contended::on(&store, &client).await;
    let holder = manager(&store).await;
    for _ in 0..600 {
        let lease = holder.acquire("b").ttl(HOUR).wait_forever().await.unwrap();
        let next = tokio::spawn(contended.leases.acquire("b").wait_forever().into_future());
        pass(Duration::from_secs(1)).await;
        assert_done(lease.release().await.unwrap(), "handed off");
        // The stream may have the connection for as long as a release takes at most.
        let _unanswered = next.await.unwrap().unwrap().release().await;
    }
    let asked_for = client.streams_asked_for();
    assert!((2..40).contains(&asked_for), "{asked_for} in ten minutes");
    contended.ends_by_a_hand_off().await;
}

/// Five calls wait, and the stream goes on while they are granted. It is closed after the first two reads that hear
/// nothing while nobody waits, so the next call asks for another one.
#[tokio::test(start_paused = true)]
async fn one_stream_a_manager_is_open_and_only_while_somebody_waits() {
    let store = MemoryStore::new();
    let client = store.client();
    let (holder, leases) = (manager(&store).await, manager(&client).await);
    for rounds in 1..=3 {
        let (mut held, mut next) = (Vec::new(), Vec::new());
        for number in 0..5 {
            let name = format!("lease:{number}");
            held.push(holder.acquire(&name).ttl(HOUR).await.unwrap());
            next.push(queued_by(&leases, |leases| leases.acquire(name).wait_forever()).await);
        }
        for (lease, next) in held.into_iter().zip(next) {
            pass(Duration::from_secs(7)).await;
            assert_done(lease.release().await.unwrap(), "handed off");
            granted(next).await.release().await.unwrap();
        }
        // One read has heard nothing.
        pass(Duration::from_secs(12)).await;
        let lease = holder.acquire("a").ttl(HOUR).await.unwrap();
        let next = queued_by(&leases, |leases| leases.acquire("a").wait_forever()).await;
        assert_done(lease.release().await.unwrap(), "handed off");
        granted(next).await.release().await.unwrap();
        assert_eq!(client.streams_asked_for(), rounds);
        pass(Duration::from_secs(30)).await;
    }
    assert_eq!(store.leases_in_use(), 0);
}

/// One whose opening fails may work at any moment. One whose opening is not answered keeps a connection for 10 s each
/// time, and the other commands say that the database is there.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_answered_is_asked_for_more_rarely_than_one_that_fails() {
    for (hearing, least, most) in [(Hearing::Breaks, 60, 90), (Hearing::Gone, 10, 14)] {
        let (store, wire) = (MemoryStore::simulated(0, 1), Wire::new());
        wire.hears(hearing);
        let client = store.client_of(wire);
        let contended = Contended::on(&store, &client).await;
        let mut events = Listener::of(&contended.leases);
        pass(HOUR / 6).await;
        let asked_for = client.streams_asked_for();
        assert!((least..=most).contains(&asked_for), "{asked_for} in ten minutes");
        let is_told = |event: &Event| matches!(event, Event::Polling { .. });
        assert_eq!(events.so_far().iter().filter(|it| is_told(it)).count(), 1);
        contended.ends_by_a_hand_off().await;
    }
}

/// Its connection is dead, and was not closed. Heartbeats go on beside it, and find a promotion. The silence is noticed
/// after 15 s, and the next stream hears.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_delays_no_waiter_for_long_and_is_reopened() {
    const LIFE: Duration = Duration::from_secs(3);
    let store = MemoryStore::simulated(0, 1);
    let wire = Wire::new();
    let tuning = Tuning::default().recheck_every(HOUR).waiter_ttl(LIFE);
    let leases = wire.manager(&store, tuning).await;
    let holder = manager(&store).await;
    let mut events = Listener::of(&leases);
    let hand_off = async |hearing| {
        let lease = holder.acquire("a").ttl(HOUR).wait_forever().await.unwrap();
        let next = queued_by(&leases, |leases| leases.acquire("a").wait_forever()).await;
        pass(LIFE).await;
        wire.hears(hearing);
        let released = Instant::now();
        assert_done(lease.release().await.unwrap(), "handed off");
        let next = granted(next).await;
        assert!(next.is_valid());
        assert_done(next.release().await.unwrap(), "at once");
        released.elapsed()
    };
    let by_an_event = hand_off(Hearing::Good).await;
    assert!(by_an_event < Duration::from_millis(10), "{by_an_event:?}");
    let by_a_heartbeat = hand_off(Hearing::Gone).await;
    assert!(by_a_heartbeat > by_an_event && by_a_heartbeat < LIFE, "{by_a_heartbeat:?}");
    let (begin, reason) = (Instant::now(), events.polling().await);
    assert!(reason.contains("silent for 15s"), "{reason}");
    assert!(begin.elapsed() <= Duration::from_secs(25), "{:?}", begin.elapsed());
    wire.hears(Hearing::Good);
    let _held = holder.acquire("b").ttl(HOUR).await.unwrap();
    let _waits = queued_by(&leases, |leases| leases.acquire("b").wait_forever()).await;
    events.watching().await;
    let again = hand_off(Hearing::Good).await;
    assert!(again < Duration::from_millis(10), "{again:?}");
}
