//! Lost replies and late requests of calls that join and leave.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::{Error, Lease, LeaseManager, Tuning};

use crate::common::builder;
use crate::lent::{Proxied, proxied};
use crate::line::{
    LONG_LIFE, NEVER, Waiting, all_granted, dropped, granted, in_line, line_of, until_line_is,
};
use crate::patience::{bounded, locks, until_nothing_is_left};

/// A manager behind a proxy, whose call waits first, and one whose call waits behind that. Then a lease that is held,
/// and its manager.
async fn setup() -> (Proxied, Lease, LeaseManager) {
    let told_only = Tuning::default().recheck_every(NEVER).waiter_ttl(LONG_LIFE);
    let proxied = proxied(|builder| builder.tuning(told_only.clone()).wait(NEVER)).await;
    let holder = builder(&proxied.database).build().await.unwrap();
    // Long: the first renewal would count as a write of the calls that are watched.
    let lease = holder.acquire("a").ttl(LONG_LIFE).await.unwrap();
    (proxied, lease, holder)
}

/// A call that waits, with this label in the queue.
async fn joined(leases: &LeaseManager, label: &str) -> Waiting {
    in_line(leases, leases.acquire("a").owner(label)).await
}

/// It gives up, and is promoted before its leave arrives. The leave hands off; its reply is lost, so it is sent again.
#[tokio::test]
async fn who_leaves_and_was_promoted_meanwhile_hands_on_once() {
    let (proxied, lease, holder) = setup().await;
    let Proxied { _server, database, proxy, slow: far, direct: near } = proxied;
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

#[tokio::test]
async fn a_join_that_comes_after_the_give_up_is_taken_out_again() {
    let (proxied, lease, _holder) = setup().await;
    let Proxied { _server, database, proxy, slow: far, direct: near } = proxied;
    // A manager that knows the lease is held joins at once.
    assert!(far.try_acquire("a").await.unwrap().granted().is_none());
    for is_slow in [true, false] {
        // On its way; or it has arrived, and the connection breaks before the reply.
        let late = match is_slow {
            true => proxy.hold_next_request("findAndModify"),
            false => proxy.hold_next_reply("findAndModify"),
        };
        let error =
            far.acquire("a").owner("far").wait(Duration::from_millis(500)).await.unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        bounded(late.held(1)).await;
        let next = joined(&near, "near").await;
        let before: &[&str] = if is_slow { &["near"] } else { &["far", "near"] };
        assert_eq!(line_of(&database, "a").await, before);
        let mut changes = locks(&database).watch().await.unwrap();
        if !is_slow {
            proxy.cut();
        }
        late.release();
        // Added, where it was not, and removed.
        for _ in 0..if is_slow { 2 } else { 1 } {
            let _written = bounded(changes.next()).await.expect("the stream goes on").unwrap();
        }
        assert_eq!(line_of(&database, "a").await, ["near"], "the request is slow: {is_slow}");
        dropped(next).await;
        until_line_is(&database, "a", &[]).await;
    }
    assert_eq!(far.shutdown().await.tasks_left, 0);
    lease.release().await.unwrap();
    until_nothing_is_left(&database).await;
}
