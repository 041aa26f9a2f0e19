//! Lost replies and late requests of calls that join, leave and hand off.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::change_stream::ChangeStream;
use mongo_lease::mongodb::change_stream::event::ChangeStreamEvent;
use mongo_lease::{Error, Lease, LeaseManager, Released, Tuning};
use mongo_lease_testbed::{HoldGuard, Proxy, TestDatabase};

use crate::lent::{LentServer, behind_a_proxy, lent_setup};
use crate::line::{
    LONG_LIFE, Waiting, all_granted, dropped, granted, in_line, in_line_watching, line_of,
    told_only, until_line_is,
};
use crate::patience::{Listener, bounded, locks, until_nothing_is_left};

const WAIT: Duration = Duration::from_millis(500);

/// A lease that is held, a manager behind a proxy whose call waits first, and one whose call waits behind that.
struct Setup {
    _server: LentServer,
    database: TestDatabase,
    proxy: Proxy,
    holder: LeaseManager,
    lease: Lease,
    far: LeaseManager,
    near: LeaseManager,
}

async fn setup() -> Setup {
    let (server, database, holder) = lent_setup().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let far = told_only(&through, LONG_LIFE).build().await.unwrap();
    let near = told_only(&database, LONG_LIFE).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    Setup { _server: server, database, proxy, holder, lease, far, near }
}

/// A call that waits, with this label in the queue.
async fn joined(leases: &LeaseManager, label: &str) -> Waiting {
    in_line(leases, leases.acquire("a").owner(label)).await
}

#[tokio::test]
async fn who_joins_and_is_not_told_stands_in_line_once() {
    let Setup { _server, database, proxy, lease, far, near, .. } = setup().await;
    let lost = proxy.lose_next_reply("findAndModify");
    let first = joined(&far, "far").await;
    bounded(lost.lost()).await;
    let second = joined(&near, "near").await;
    assert_eq!(line_of(&database, "a").await, ["far", "near"]);
    lease.release().await.unwrap();
    all_granted([first, second]).await;
    until_nothing_is_left(&database).await;
}

/// The release is sent again, and must not hand off the lease that the next one holds by then.
#[tokio::test]
async fn a_hand_on_whose_reply_is_lost_hands_on_once() {
    let Setup { _server, database, proxy, holder, lease, far, near } = setup().await;
    let held = joined(&far, "far").await;
    let mut events = Listener::of(&far);
    lease.release().await.unwrap();
    // It knows by its promotion that others are likely to wait, and hands off at once.
    let lease = granted(held).await;
    // Its first renewal is an update too, and follows soon.
    events.renewals("a", 1).await;
    let first = joined(&near, "near").await;
    let second = joined(&holder, "holder").await;
    let lost = proxy.lose_next_reply("update");
    let token = lease.token().unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    bounded(lost.lost()).await;
    let lease = granted(first).await;
    assert!(lease.token().unwrap() > token);
    assert_eq!(line_of(&database, "a").await, ["holder"]);
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    all_granted([second]).await;
    until_nothing_is_left(&database).await;
}

/// It gives up, and is promoted before its leave arrives. The leave hands off; its reply is lost, so it is sent again.
#[tokio::test]
async fn who_leaves_and_was_promoted_meanwhile_hands_on_once() {
    let Setup { _server, database, proxy, holder, lease, far, near } = setup().await;
    let waiting = joined(&far, "far").await;
    let first = joined(&near, "near").await;
    let second = joined(&holder, "holder").await;
    let leaves = proxy.hold_next_request("update");
    let lost = proxy.lose_next_reply("update");
    dropped(waiting).await;
    bounded(leaves.held(1)).await;
    lease.release().await.unwrap();
    until_line_is(&database, "a", &["near", "holder"]).await;
    assert!(!first.is_finished());
    leaves.release();
    bounded(lost.lost()).await;
    let lease = granted(first).await;
    lease.renew().await.unwrap();
    assert_eq!(line_of(&database, "a").await, ["holder"]);
    // The manager of the call that left has nothing left to do, and nothing is held for it.
    assert_eq!(far.shutdown().await.tasks_left, 0);
    lease.release().await.unwrap();
    all_granted([second]).await;
    until_nothing_is_left(&database).await;
}

/// The changes of the leases, one by one.
async fn changes(database: &TestDatabase) -> ChangeStream<ChangeStreamEvent<Document>> {
    locks(database).watch().await.unwrap()
}

async fn until_written(changes: &mut ChangeStream<ChangeStreamEvent<Document>>, times: usize) {
    for _ in 0..times {
        let _written = bounded(changes.next()).await.expect("the stream goes on").unwrap();
    }
}

#[tokio::test]
async fn a_join_that_comes_after_the_give_up_is_taken_out_again() {
    let Setup { _server, database, proxy, lease, far, near, .. } = setup().await;
    // A manager that knows the lease is held joins at once.
    assert!(far.try_acquire("a").await.unwrap().granted().is_none());
    for is_slow in [true, false] {
        // On its way; or it has arrived, and the connection breaks before the reply.
        let late = match is_slow {
            true => proxy.hold_next_request("findAndModify"),
            false => proxy.hold_next_reply("findAndModify"),
        };
        let error = far.acquire("a").owner("far").wait(WAIT).await.unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        bounded(late.held(1)).await;
        let next = joined(&near, "near").await;
        let before: &[&str] = if is_slow { &["near"] } else { &["far", "near"] };
        assert_eq!(line_of(&database, "a").await, before);
        let mut changes = changes(&database).await;
        if !is_slow {
            proxy.cut();
        }
        late.release();
        // Added, where it was not, and removed.
        until_written(&mut changes, if is_slow { 2 } else { 1 }).await;
        assert_eq!(line_of(&database, "a").await, ["near"], "the request is slow: {is_slow}");
        dropped(next).await;
        until_line_is(&database, "a", &[]).await;
    }
    assert_eq!(far.shutdown().await.tasks_left, 0);
    lease.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

/// A waiter sends another attempt, which is slow on its way. It is promoted, gets the event, and takes over.
async fn overtaken() -> (Setup, HoldGuard) {
    let setup = setup().await;
    let through = setup.database.through(&setup.proxy.client().await);
    let tuning = Tuning::default().waiter_ttl(LONG_LIFE).recheck_every(2 * WAIT);
    let asks_again = LeaseManager::builder(&through).tuning(tuning).build().await.unwrap();
    let waiting = in_line_watching(&asks_again, asks_again.acquire("a").wait_forever()).await;
    let late = setup.proxy.hold_next_request("findAndModify");
    bounded(late.held(1)).await;
    setup.lease.release().await.unwrap();
    (Setup { lease: granted(waiting).await, ..setup }, late)
}

#[tokio::test]
async fn a_late_attempt_after_its_promotion_changes_nothing() {
    let (setup, late) = overtaken().await;
    let mut changes = changes(&setup.database).await;
    late.release();
    until_written(&mut changes, 1).await;
    setup.lease.renew().await.unwrap();
    assert_eq!(setup.lease.release().await.unwrap(), Released::Released);
    until_nothing_is_left(&setup.database).await;
}

#[tokio::test]
async fn a_late_attempt_after_its_release_is_given_back() {
    let (setup, late) = overtaken().await;
    setup.lease.release().await.unwrap();
    until_nothing_is_left(&setup.database).await;
    let mut changes = changes(&setup.database).await;
    late.release();
    // Granted once more, and given back.
    until_written(&mut changes, 2).await;
    until_nothing_is_left(&setup.database).await;
}

#[tokio::test]
async fn a_late_attempt_behind_the_next_holder_leaves_the_queue() {
    let (setup, late) = overtaken().await;
    let next = joined(&setup.near, "near").await;
    setup.lease.release().await.unwrap();
    let next = granted(next).await;
    let mut changes = changes(&setup.database).await;
    late.release();
    until_written(&mut changes, 2).await;
    until_line_is(&setup.database, "a", &[]).await;
    next.renew().await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Released);
    until_nothing_is_left(&setup.database).await;
}
