//! A change stream that is killed, broken, refused or silent: no wake-up is lost, and the stream comes back.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{Lease, LeaseManager, Tuning};
use mongo_lease_testbed::{FailCommand, Server, TestDatabase};
use tokio::task::JoinHandle;

use super::crowd::queued;
use crate::common::builder;
use crate::lent::{LentServer, behind_a_proxy, lent_database};
use crate::patience::{BUSY_MACHINE, Listener, bounded, soon, until};

/// Longer than any test: a waiter must wake by an event, or by polling for want of a stream.
const HOUR: Duration = Duration::from_secs(3600);
/// The longest life of an entry: no heartbeat detects a promotion in place of the stream.
const LIFE: Duration = Duration::from_secs(600);
struct Setup {
    server: LentServer,
    database: TestDatabase,
    holder: LeaseManager,
}

async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    Setup { server, database, holder }
}

/// A manager whose waiters depend on events.
async fn told(database: &Database) -> (LeaseManager, Listener) {
    let leases = LeaseManager::builder(database)
        .tuning(Tuning::default().recheck_every(HOUR).waiter_ttl(LIFE));
    let leases = leases.build().await.unwrap();
    let events = Listener::of(&leases);
    (leases, events)
}

fn waiting(leases: &LeaseManager, name: &str) -> JoinHandle<Lease> {
    let asking = leases.acquire(name).wait_forever().into_future();
    tokio::spawn(async move { asking.await.unwrap() })
}

/// Releases the lease, and returns how soon the next waiter has it.
async fn hand_off(lease: Lease, next: JoinHandle<Lease>) -> Duration {
    let token = lease.token().unwrap();
    let started = Instant::now();
    lease.release().await.unwrap();
    let next = soon("the next grant", next).await.unwrap();
    let took = started.elapsed();
    assert!(next.token().unwrap() > token);
    next.release().await.unwrap();
    took
}

/// The cursors of change streams on the database's leases.
async fn streams(server: &Server, database: &TestDatabase) -> Vec<Bson> {
    let of_ours = doc! {
        "ns": format!("{}.locks", database.name()),
        "cursor.originatingCommand.pipeline.0.$changeStream": { "$exists": true },
    };
    let look = doc! {
        "aggregate": 1,
        "pipeline": [{ "$currentOp": { "idleCursors": true } }, { "$match": of_ours }],
        "cursor": {},
    };
    let reply = server.admin(look).await;
    let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let id = |found: &Bson| {
        found.as_document().unwrap().get_document("cursor").unwrap().get("cursorId").cloned()
    };
    found.iter().filter_map(id).collect()
}

async fn kill_the_stream(server: &Server, database: &TestDatabase) {
    let found = async || streams(server, database).await.into_iter().next();
    let cursor = until("there is a stream", found).await;
    let kill = doc! { "killCursors": "locks", "cursors": [cursor] };
    let killed = database.run_command(kill).await.unwrap();
    assert_eq!(killed.get_array("cursorsKilled").unwrap().len(), 1);
}

#[tokio::test]
async fn a_stream_that_is_killed_comes_back_and_promotions_are_told() {
    let Setup { server, database, holder } = setup().await;
    let (leases, mut events) = told(&database).await;
    for round in 0..3 {
        let [now, later] = [format!("now:{round}"), format!("later:{round}")];
        let first = holder.acquire(&now).await.unwrap();
        let second = holder.acquire(&later).await.unwrap();
        let next = [waiting(&leases, &now), waiting(&leases, &later)];
        for _ in 0..2 {
            queued(&mut events).await;
        }
        if round == 0 {
            events.watching().await;
        }
        kill_the_stream(&server, &database).await;
        let [now, later] = next;
        hand_off(first, now).await;
        let reason = events.polling().await;
        events.watching().await;
        hand_off(second, later).await;
        assert!(reason.contains("CursorKilled"), "{reason}");
    }
}

/// An error of the server in the stream, and whether its client resumes by itself.
async fn stream_with(fault: FailCommand, is_seen: bool) {
    let Setup { server, database, holder } = setup().await;
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
    if is_seen {
        events.polling().await;
        events.watching().await;
    }
    hand_off(second, later).await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_opened_at_first_is_opened_later() {
    // Unauthorized; ChangeStreamHistoryLost; a failover, which the client retries once by itself.
    for code in [13, 286, 10_107] {
        stream_with(FailCommand::on(&["aggregate"]).times(3).error_code(code), true).await;
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_opened_again() {
    let on_next = || FailCommand::on(&["getMore"]).times(1);
    // ChangeStreamFatalError, CursorKilled, and Unauthorized.
    for code in [280, 237, 13] {
        stream_with(on_next().error_code(code), true).await;
    }
}

#[tokio::test]
async fn a_stream_that_the_client_resumes_tells_what_was_missed() {
    let on_next = || FailCommand::on(&["getMore"]).times(1);
    stream_with(on_next().close_connection(), false).await;
    let resumable = on_next().error_code(6).error_labels(&["ResumableChangeStreamError"]);
    stream_with(resumable, false).await;
}

/// The server has sent the event, and the connection breaks before it arrives.
#[tokio::test]
async fn a_promotion_whose_event_is_lost_is_told_again() {
    let Setup { server, database, holder } = setup().await;
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
    let next = soon("the next grant", next).await.unwrap();
    assert!(next.is_valid());
}

/// A dead connection that nobody has closed. Heartbeats go on beside it.
#[tokio::test]
async fn a_silent_stream_delays_no_waiter_and_is_reopened() {
    const LIFE: Duration = Duration::from_secs(3);
    let Setup { server, database, holder } = setup().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through)
        .tuning(Tuning::default().recheck_every(HOUR).waiter_ttl(LIFE));
    let leases = leases.build().await.unwrap();
    let mut events = Listener::of(&leases);
    let lease = holder.acquire("a").await.unwrap();
    let next = waiting(&leases, "a");
    events.watching().await;
    let silent = proxy.hold_next_reply("getMore");
    let took = hand_off(lease, next).await;
    // By a heartbeat, and not when the silence is noticed, after 15 s.
    assert!(took < LIFE / 3 + BUSY_MACHINE, "{took:?}");
    let lease = holder.acquire("a").await.unwrap();
    let next = waiting(&leases, "a");
    let reason = events.polling().await;
    events.watching().await;
    assert!(reason.contains("silent"), "{reason}");
    hand_off(lease, next).await;
    silent.release();
}

/// Two join at once, and the reply of the first one comes last: the stream begins at the other's time.
#[tokio::test]
async fn a_promotion_before_the_beginning_of_the_stream_is_not_missed() {
    let Setup { server, database, holder } = setup().await;
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
    let next = soon("the grant of long ago", next).await.unwrap();
    next.release().await.unwrap();
    other.abort();
}

/// The server takes long to open the stream, and the promotion comes meanwhile.
#[tokio::test]
async fn a_promotion_before_the_stream_is_open_is_told() {
    let Setup { server, database, holder } = setup().await;
    let (leases, mut events) = told(&database).await;
    let lease = holder.acquire("a").await.unwrap();
    let slow = FailCommand::on(&["aggregate"]).times(1).block_for(Duration::from_secs(1));
    let slow = slow.enable(server.uri()).await;
    let next = waiting(&leases, "a");
    queued(&mut events).await;
    slow.wait_times_entered(1).await;
    hand_off(lease, next).await;
}

/// The command that opens the stream, for those who watch their servers.
#[tokio::test]
async fn one_stream_a_manager_is_open_and_only_while_somebody_waits() {
    let Setup { server, database, holder } = setup().await;
    let (leases, mut events) = told(&database).await;
    assert_eq!(streams(&server, &database).await, Vec::<Bson>::new());
    let mut held = Vec::new();
    let mut next = Vec::new();
    for number in 0..5 {
        let name = format!("lease:{number}");
        held.push(holder.acquire(&name).await.unwrap());
        next.push(waiting(&leases, &name));
        queued(&mut events).await;
    }
    until("there is a stream", async || {
        (!streams(&server, &database).await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(streams(&server, &database).await.len(), 1);
    for (lease, next) in held.into_iter().zip(next) {
        hand_off(lease, next).await;
    }
    let closed = async || streams(&server, &database).await.is_empty().then_some(());
    until("the stream is closed", closed).await;
    let locks = database.collection::<Document>("locks");
    assert_eq!(locks.count_documents(doc! {}).await.unwrap(), 0);
}
