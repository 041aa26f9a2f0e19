//! A change stream that is broken, refused or silent: no wake-up is lost, and the stream comes back.

use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::{FailCommand, Server};
use tokio::task::JoinSet;

use crate::common::migrated;
use crate::lent::{behind_a_proxy, lent_setup};
use crate::line::{LONG_LIFE, Waiting, granted, told_only};
use crate::patience::{Listener, bounded};

/// A manager whose waiters wake by an event, or by polling for want of a stream.
async fn told(database: &Database) -> (LeaseManager, Listener) {
    let leases = told_only(database, LONG_LIFE).build().await.unwrap();
    let events = Listener::of(&leases);
    (leases, events)
}

/// A call that need not be in the queue yet.
fn waiting(leases: &LeaseManager, name: &str) -> Waiting {
    tokio::spawn(leases.acquire(name).into_future())
}

/// Releases the lease, which the next waiter has soon.
async fn hand_off(lease: Lease, next: Waiting) {
    let token = lease.token().unwrap();
    lease.release().await.unwrap();
    let next = granted(next).await;
    assert!(next.token().unwrap() > token);
    next.release().await.unwrap();
}

/// An error of the server in the stream. Waiters poll until it is open again, but where it goes on by itself.
#[tokio::test]
async fn a_stream_that_breaks_is_opened_again_and_tells_all() {
    // The client retries once by itself.
    let at_first = FailCommand::on(&["aggregate"]).times(2).error_code(10_107);
    let on_next = || FailCommand::on(&["getMore"]).times(1);
    let resumable = on_next().error_code(6).error_labels(&["ResumableChangeStreamError"]);
    let slow = FailCommand::on(&["aggregate"]).times(1).block_for(Duration::from_secs(1));
    for (what, fault, goes_on) in [
        ("a promotion before the stream is open", slow, true),
        ("a failover at first", at_first, false),
        ("CursorKilled", on_next().error_code(237), false),
        ("a connection that breaks", on_next().close_connection(), true),
        ("an error that the client resumes from", resumable, true),
    ] {
        // Shown where the test fails.
        eprintln!("{what}");
        let (server, database, holder) = lent_setup().await;
        let (leases, mut events) = told(&database).await;
        let first = holder.acquire("now").await.unwrap();
        let second = holder.acquire("later").await.unwrap();
        let fault = fault.enable(server.uri()).await;
        // The stream is opened for it.
        let now = waiting(&leases, "now");
        fault.wait_times_entered(1).await;
        let later = waiting(&leases, "later");
        hand_off(first, now).await;
        fault.disable().await;
        if !goes_on {
            events.polling().await;
            events.watching().await;
        }
        hand_off(second, later).await;
    }
}

/// The server has sent the event, and the connection breaks before it arrives.
#[tokio::test]
async fn a_promotion_whose_event_is_lost_is_told_again() {
    let (server, database, holder) = lent_setup().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let (leases, mut events) = told(&through).await;
    let lease = holder.acquire("a").await.unwrap();
    let next = waiting(&leases, "a");
    events.watching().await;
    let told = proxy.hold_replies_to("getMore");
    lease.release().await.unwrap();
    bounded(told.held(1)).await;
    assert!(!next.is_finished());
    proxy.cut();
    told.release();
    assert!(granted(next).await.is_valid());
}

/// Two join at once, and the reply of the first one comes last: the stream begins at the other's time.
#[tokio::test]
async fn a_promotion_before_the_beginning_of_the_stream_is_not_missed() {
    let (server, database, holder) = lent_setup().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let (leases, mut events) = told(&through).await;
    let early = holder.acquire("early").await.unwrap();
    let _late = holder.acquire("late").await.unwrap();
    let reply = proxy.hold_next_reply("findAndModify");
    let next = waiting(&leases, "early");
    bounded(reply.held(1)).await;
    // Promoted before it knows that it is in the queue.
    early.release().await.unwrap();
    let other = waiting(&leases, "late");
    events.watching().await;
    assert!(!next.is_finished());
    reply.release();
    assert!(granted(next).await.is_valid());
    other.abort();
}

/// A manager finds out that its stream leaves room for other commands also while events come without a pause.
#[tokio::test]
async fn a_stream_that_is_never_silent_is_relied_on() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (mut rounds, mut listeners) = (JoinSet::new(), Vec::new());
    for _ in 0..3 {
        let (leases, events) = told(&database.through(&server.client().await)).await;
        listeners.push(events);
        rounds.spawn(async move {
            loop {
                leases.acquire("a").await.unwrap().release().await.unwrap();
            }
        });
    }
    for events in &mut listeners {
        events.watching().await;
    }
    rounds.abort_all();
}
