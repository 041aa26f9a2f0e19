//! The change stream of a manager, beside a database that is away again and again, or a pool that is too small.

use std::time::Duration;

use mongo_lease::{Lease, LeaseManager, MemoryStore, Result};
use tokio::task::JoinHandle;

use super::manager;
use crate::common::assert_done;
use crate::patience::{Listener, pass};

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
