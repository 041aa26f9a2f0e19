//! Giving up and being promoted at once: a promoted waiter that has gone hands off, and no waiter is forgotten.

use std::time::Duration;

use mongo_lease::{LeaseManager, Released};
use mongo_lease_testbed::{Proxy, TestDatabase};

use super::{
    NEVER, Waiting, dropped, granted, holder_of, in_line, in_line_watching, line_of, manager,
    start_waiting, told_only, told_only_tuning, until_line_is,
};
use crate::common::document;
use crate::lent::{LentServer, behind_a_proxy, lent_database};
use crate::patience::{bounded, until, until_nothing_is_left};

/// A holder, A whose messages can be held, and B behind it, connected directly to the server.
struct Setup {
    server: LentServer,
    database: TestDatabase,
    proxy: Proxy,
    lease: mongo_lease::Lease,
    a: LeaseManager,
    b: LeaseManager,
}

async fn setup(recheck_every: Duration) -> Setup {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let a = told_only(&through)
        .tuning(told_only_tuning().recheck_every(recheck_every))
        .build()
        .await
        .unwrap();
    let b = manager(&server, &database).await;
    let lease = manager(&server, &database).await.acquire("a").await.unwrap();
    Setup { server, database, proxy, lease, a, b }
}

impl Setup {
    /// One of A's, without events, and B behind it.
    async fn line_up(&self) -> (Waiting, Waiting) {
        let first = in_line_watching(&self.a, self.a.acquire("a").owner("first")).await;
        let b = in_line(&self.b, self.b.acquire("a").owner("b")).await;
        (first, b)
    }
}

#[tokio::test]
async fn who_gives_up_behind_its_promotion_hands_on() {
    let setup = setup(NEVER).await;
    let (first, b) = setup.line_up().await;
    let events = setup.proxy.hold_replies_to("getMore");
    let token = setup.lease.token().unwrap();
    setup.lease.release().await.unwrap();
    bounded(events.held(1)).await;
    let found = document(&setup.database, "a").await.unwrap();
    assert_eq!(holder_of(&found), Some("first"));
    dropped(first).await;
    let lease = granted(b).await;
    assert!(lease.token().unwrap() > token);
    // The answer that reaches the departed call now changes nothing.
    events.release();
    assert!(setup.a.try_acquire("a").await.unwrap().granted().is_none());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(document(&setup.database, "a").await.is_none());
}

#[tokio::test]
async fn who_is_promoted_behind_its_giving_up_hands_on() {
    let setup = setup(NEVER).await;
    let (first, b) = setup.line_up().await;
    let leaving = setup.proxy.hold_requests_to("update");
    dropped(first).await;
    bounded(leaving.held(1)).await;
    setup.lease.release().await.unwrap();
    let found = document(&setup.database, "a").await.unwrap();
    assert_eq!(holder_of(&found), Some("first"));
    leaving.release();
    let lease = granted(b).await;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    until_nothing_is_left(&setup.database).await;
}

/// The second call of a process finds the first one's promotion, and takes it over.
#[tokio::test]
async fn a_successor_takes_over_what_its_predecessor_was_promoted_to() {
    let setup = setup(NEVER).await;
    let first = in_line_watching(&setup.a, setup.a.acquire("a").owner("first")).await;
    let second = start_waiting(setup.a.acquire("a").owner("second"));
    let b = in_line(&setup.b, setup.b.acquire("a").owner("b")).await;
    let events = setup.proxy.hold_replies_to("getMore");
    let token = setup.lease.token().unwrap();
    let old = setup.lease.value().to_owned();
    let Setup { database, a, .. } = setup;
    setup.lease.release().await.unwrap();
    bounded(events.held(1)).await;
    dropped(first).await;
    assert_eq!(holder_of(&document(&database, "a").await.unwrap()), Some("first"));
    events.release();
    let lease = granted(second).await;
    let found = document(&database, "a").await.unwrap();
    assert_eq!(holder_of(&found), Some("second"));
    assert_eq!(found.get_str("value").unwrap(), lease.value());
    assert_ne!(old, lease.value());
    assert!(lease.token().unwrap() > token);
    assert_eq!(line_of(&database, "a").await, ["b"]);
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    granted(b).await.release().await.unwrap();
    assert_eq!(a.shutdown().await.tasks_left, 0);
    until_nothing_is_left(&database).await;
}

/// It is in the queue, and is dropped before the reply arrives.
#[tokio::test]
async fn a_join_whose_caller_goes_before_its_reply_is_taken_back() {
    let setup = setup(NEVER).await;
    // A manager that knows the lease is held joins at once.
    assert!(setup.a.try_acquire("a").await.unwrap().granted().is_none());
    let replies = setup.proxy.hold_replies_to("findAndModify");
    let waiting = start_waiting(setup.a.acquire("a").owner("first"));
    bounded(replies.held(1)).await;
    assert_eq!(line_of(&setup.database, "a").await, ["first"]);
    dropped(waiting).await;
    replies.release();
    until_line_is(&setup.database, "a", &[]).await;
    assert_eq!(setup.a.shutdown().await.tasks_left, 0);
    setup.lease.renew().await.unwrap();
}

/// It is dropped, and its join reaches the server after that.
#[tokio::test]
async fn a_join_that_comes_behind_the_giving_up_is_taken_back() {
    let setup = setup(NEVER).await;
    let requests = setup.proxy.hold_requests_to("findAndModify");
    let waiting = start_waiting(setup.a.acquire("a").owner("first"));
    bounded(requests.held(1)).await;
    dropped(waiting).await;
    assert_eq!(line_of(&setup.database, "a").await, Vec::<String>::new());
    requests.release();
    // Answered, with all consequences: then the manager has nothing left to do.
    assert_eq!(setup.a.shutdown().await.tasks_left, 0);
    assert_eq!(line_of(&setup.database, "a").await, Vec::<String>::new());
    setup.lease.renew().await.unwrap();
}

/// The same for an entry further back: the call sends another attempt at its `recheck_every`, and is dropped meanwhile.
#[tokio::test]
async fn a_question_that_comes_behind_the_giving_up_leaves_no_entry() {
    let setup = setup(Duration::from_millis(200)).await;
    let (first, b) = setup.line_up().await;
    let requests = setup.proxy.hold_requests_to("findAndModify");
    bounded(requests.held(1)).await;
    dropped(first).await;
    // The leave is sent at once, and removes the entry that is there.
    until_line_is(&setup.database, "a", &["b"]).await;
    requests.release();
    assert_eq!(setup.a.shutdown().await.tasks_left, 0);
    assert_eq!(line_of(&setup.database, "a").await, ["b"]);
    setup.lease.release().await.unwrap();
    granted(b).await.release().await.unwrap();
}

/// It sends an attempt by its own clock, and is promoted before the answer: it accepts the promotion of the event.
#[tokio::test]
async fn a_promotion_is_taken_while_a_question_is_unanswered() {
    let setup = setup(Duration::from_millis(200)).await;
    let (first, b) = setup.line_up().await;
    let replies = setup.proxy.hold_replies_to("findAndModify");
    bounded(replies.held(1)).await;
    setup.lease.release().await.unwrap();
    let lease = granted(first).await;
    // The refusal that arrives now is older, and the lease stays held.
    replies.release();
    assert!(setup.a.try_acquire("other").await.unwrap().granted().is_some());
    lease.renew().await.unwrap();
    assert_eq!(line_of(&setup.database, "a").await, ["b"]);
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    granted(b).await.release().await.unwrap();
    until("it is free", async || document(&setup.database, "a").await.is_none().then_some(()))
        .await;
}

/// Its reply is lost, so it is sent again: the second must not take the lease from the waiter that the first promoted.
#[tokio::test]
async fn a_release_that_is_sent_twice_hands_on_once() {
    let setup = setup(NEVER).await;
    let Setup { server, database, proxy, lease, a, b } = setup;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let lease = a.acquire("a").await.unwrap();
    let token = lease.token().unwrap();
    let c = manager(&server, &database).await;
    let first = in_line(&b, b.acquire("a").owner("b")).await;
    let second = in_line(&c, c.acquire("a").owner("c")).await;
    let lost = proxy.lose_next_reply("update");
    let released = lease.release().await.unwrap();
    bounded(lost.lost()).await;
    assert_eq!(released, Released::Unknown);
    let lease = granted(first).await;
    assert!(lease.token().unwrap() > token);
    assert_eq!(line_of(&database, "a").await, ["c"]);
    lease.renew().await.unwrap();
    assert!(!second.is_finished());
    lease.release().await.unwrap();
    granted(second).await.release().await.unwrap();
}
