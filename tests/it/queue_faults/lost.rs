//! Lost replies and late requests of calls that join, leave and hand off.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::change_stream::ChangeStream;
use mongo_lease::mongodb::change_stream::event::ChangeStreamEvent;
use mongo_lease::{Error, Lease, LeaseManager, LeaseManagerBuilder, Released, Tuning};
use mongo_lease_testbed::{HoldGuard, Proxy, TestDatabase};
use tokio::task::JoinHandle;

use super::crowd::queued;
use crate::common::{builder, document};
use crate::lent::{LentServer, behind_a_proxy, lent_database};
use crate::patience::{Listener, bounded, locks, soon, until, until_nothing_is_left};

/// The longest life: within a test no entry expires.
const LIFE: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);
const WAIT: Duration = Duration::from_millis(500);

/// The holder, a waiter behind a proxy, and a waiter behind that one.
struct Setup {
    _server: LentServer,
    database: TestDatabase,
    proxy: Proxy,
    holder: LeaseManager,
    far: LeaseManager,
    near: LeaseManager,
}

fn patient(builder: LeaseManagerBuilder) -> LeaseManagerBuilder {
    builder.tuning(Tuning::default().waiter_ttl(LIFE).recheck_every(HOUR))
}

async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let far = patient(LeaseManager::builder(&through)).build().await.unwrap();
    let holder = builder(&database).build().await.unwrap();
    let near = patient(builder(&database)).build().await.unwrap();
    Setup { _server: server, database, proxy, holder, far, near }
}

type Waiting = JoinHandle<mongo_lease::Result<Lease>>;

async fn joined(leases: &LeaseManager, ahead: usize) -> Waiting {
    let mut events = Listener::of(leases);
    let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
    assert_eq!(queued(&mut events).await, ahead);
    waiting
}

async fn granted(waiting: Waiting) -> Lease {
    soon("a grant", waiting).await.unwrap().unwrap()
}

/// The values of the waiters in the queue.
async fn in_line(database: &TestDatabase) -> Vec<String> {
    let found = document(database, "a").await;
    let queue = found.as_ref().and_then(|found| found.get_array("queue").ok());
    let entries = queue.into_iter().flatten().filter_map(|entry| entry.as_document());
    entries.map(|entry| entry.get_str("value").unwrap().to_owned()).collect()
}

async fn until_in_line(database: &TestDatabase, count: usize) {
    let so_many = async || (in_line(database).await.len() == count).then_some(());
    until(&format!("{count} stand in line"), so_many).await;
}

#[tokio::test]
async fn who_joins_and_is_not_told_stands_in_line_once() {
    let Setup { _server, database, proxy, holder, far, near } = setup().await;
    let lease = holder.acquire("a").await.unwrap();
    let lost = proxy.lose_next_reply("findAndModify");
    let first = joined(&far, 0).await;
    bounded(lost.lost()).await;
    let second = joined(&near, 1).await;
    assert_eq!(in_line(&database).await.len(), 2);
    lease.release().await.unwrap();
    let lease = granted(first).await;
    assert!(!second.is_finished());
    lease.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

/// The release is sent again, and must not hand off the lease that the next one holds by then.
#[tokio::test]
async fn a_hand_on_whose_reply_is_lost_hands_on_once() {
    let Setup { _server, database, proxy, holder, far, near } = setup().await;
    let before = holder.acquire("a").await.unwrap();
    let held = joined(&far, 0).await;
    let mut events = Listener::of(&far);
    before.release().await.unwrap();
    // It knows by its promotion that others are likely to wait, and hands off at once.
    let lease = granted(held).await;
    // Its first renewal is an update too, and follows soon.
    events.renewals("a", 1).await;
    let first = joined(&near, 0).await;
    let second = joined(&holder, 1).await;
    let lost = proxy.lose_next_reply("update");
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    bounded(lost.lost()).await;
    let lease = granted(first).await;
    assert!(!second.is_finished());
    assert_eq!(in_line(&database).await.len(), 1);
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn who_leaves_and_is_not_told_has_left_and_takes_nobody_along() {
    let Setup { _server, database, proxy, holder, far, near } = setup().await;
    let lease = holder.acquire("a").await.unwrap();
    let lost = proxy.lose_next_reply("update");
    let error = far.acquire("a").wait(WAIT).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    bounded(lost.lost()).await;
    until_in_line(&database, 0).await;
    let next = joined(&near, 0).await;
    lease.release().await.unwrap();
    granted(next).await.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

/// It gives up, and is promoted before its leave arrives. The leave hands off; its reply is lost, so it is sent again.
#[tokio::test]
async fn who_leaves_and_was_promoted_meanwhile_hands_on_once() {
    let Setup { _server, database, proxy, holder, far, near } = setup().await;
    let lease = holder.acquire("a").await.unwrap();
    let mut events = Listener::of(&far);
    let waiting = tokio::spawn(far.acquire("a").wait_forever().into_future());
    queued(&mut events).await;
    let first = joined(&near, 1).await;
    let second = joined(&holder, 2).await;
    let leaves = proxy.hold_next_request("update");
    let lost = proxy.lose_next_reply("update");
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    bounded(leaves.held(1)).await;
    lease.release().await.unwrap();
    until_in_line(&database, 2).await;
    assert!(!first.is_finished());
    leaves.release();
    bounded(lost.lost()).await;
    let lease = granted(first).await;
    lease.renew().await.unwrap();
    assert!(!second.is_finished());
    lease.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

/// The changes of the leases, one by one.
type Changes = ChangeStream<ChangeStreamEvent<Document>>;

async fn changes(database: &TestDatabase) -> Changes {
    locks(database).watch().await.unwrap()
}

async fn until_written(changes: &mut Changes, times: usize) {
    for _ in 0..times {
        let _written = bounded(changes.next()).await.expect("the stream goes on").unwrap();
    }
}

#[tokio::test]
async fn a_join_that_comes_after_the_give_up_is_taken_out_again() {
    let Setup { _server, database, proxy, holder, far, near } = setup().await;
    let lease = holder.acquire("a").await.unwrap();
    // A manager that knows the lease is held joins at once.
    assert!(far.try_acquire("a").await.unwrap().granted().is_none());
    let mut events = Listener::of(&near);
    for is_slow in [true, false] {
        // On its way; or it has arrived, and the connection breaks before the reply.
        let late = match is_slow {
            true => proxy.hold_next_request("findAndModify"),
            false => proxy.hold_next_reply("findAndModify"),
        };
        let error = far.acquire("a").wait(WAIT).await.unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        bounded(late.held(1)).await;
        let next = tokio::spawn(near.acquire("a").wait_forever().into_future());
        queued(&mut events).await;
        assert_eq!(in_line(&database).await.len(), if is_slow { 1 } else { 2 });
        let mut changes = changes(&database).await;
        if !is_slow {
            proxy.cut();
        }
        late.release();
        // Added, where it was not, and removed.
        until_written(&mut changes, if is_slow { 2 } else { 1 }).await;
        assert_eq!(in_line(&database).await.len(), 1);
        next.abort();
        until_in_line(&database, 0).await;
    }
    lease.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

/// A waiter sends another attempt, which is slow on its way. It is promoted, gets the event, and takes over.
struct Overtaken {
    setup: Setup,
    lease: Lease,
    late: HoldGuard,
}

async fn overtaken() -> Overtaken {
    let setup = setup().await;
    let through = setup.database.through(&setup.proxy.client().await);
    let asks_again = LeaseManager::builder(&through)
        .tuning(Tuning::default().waiter_ttl(LIFE).recheck_every(2 * WAIT));
    let asks_again = asks_again.build().await.unwrap();
    let mut events = Listener::of(&asks_again);
    let before = setup.holder.acquire("a").await.unwrap();
    let waiting = tokio::spawn(asks_again.acquire("a").wait_forever().into_future());
    queued(&mut events).await;
    events.watching().await;
    let late = setup.proxy.hold_next_request("findAndModify");
    bounded(late.held(1)).await;
    before.release().await.unwrap();
    let lease = granted(waiting).await;
    Overtaken { setup, lease, late }
}

#[tokio::test]
async fn a_late_attempt_after_its_promotion_changes_nothing() {
    let Overtaken { setup, lease, late } = overtaken().await;
    let Setup { _server, database, .. } = &setup;
    let mut changes = changes(database).await;
    late.release();
    until_written(&mut changes, 1).await;
    assert!(lease.is_valid());
    lease.renew().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    until_nothing_is_left(database).await;
}

#[tokio::test]
async fn a_late_attempt_after_its_release_is_given_back() {
    let Overtaken { setup, lease, late } = overtaken().await;
    let Setup { _server, database, .. } = &setup;
    lease.release().await.unwrap();
    until_nothing_is_left(database).await;
    let mut changes = changes(database).await;
    late.release();
    // Granted once more, and given back.
    until_written(&mut changes, 2).await;
    until_nothing_is_left(database).await;
}

#[tokio::test]
async fn a_late_attempt_behind_the_next_holder_leaves_the_queue() {
    let Overtaken { setup, lease, late } = overtaken().await;
    let Setup { _server, database, near, .. } = &setup;
    let next = joined(near, 0).await;
    lease.release().await.unwrap();
    let next = granted(next).await;
    let mut changes = changes(database).await;
    late.release();
    until_written(&mut changes, 2).await;
    until_in_line(database, 0).await;
    next.renew().await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Released);
    until_nothing_is_left(database).await;
}
