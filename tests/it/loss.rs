//! A holder learns of its loss, and the reason, before anybody else can hold, whatever the database does.

mod failover;
mod stopped;

use std::sync::Arc;
use std::time::Duration;

use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::{Error, Lease, LeaseManager, LostReason, MemoryStore, Released};
use mongo_lease_testbed::{ReplicaSet, TestDatabase};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::both::check;
use crate::common::{SHORT_TTL, assert_not_done, builder, granted};
use crate::lent::{Proxied, lent_database, proxied};
use crate::patience::{Listener, expires_at, pass, soon, until, until_free};

const TTL: Duration = Duration::from_secs(3);

/// The settings that the documentation recommends for quick failovers.
pub(crate) fn attentive(options: &mut ClientOptions) {
    options.heartbeat_freq = Some(Duration::from_millis(500));
    options.connect_timeout = Some(Duration::from_secs(1));
}

/// A database with the indexes, through a client with these settings.
pub(crate) async fn attentive_database(set: &ReplicaSet) -> TestDatabase {
    let database = TestDatabase::of(&set.client_with(attentive).await);
    let _ = builder(&database).ensure_indexes(true).build().await.unwrap();
    database
}

/// A holder and a waiter, at a server that soon answers nobody.
struct Contest {
    lease: Lease,
    successor: JoinHandle<Instant>,
}

impl Contest {
    async fn begin(database: &TestDatabase, ttl: Duration) -> Contest {
        let leases = builder(database).max_clock_skew(Duration::ZERO).build().await.unwrap();
        let others = builder(database).build().await.unwrap();
        let lease = leases.acquire("a").ttl(ttl).await.unwrap();
        let successor = tokio::spawn(async move {
            let _lease = others.acquire("a").wait_forever().await.unwrap();
            Instant::now()
        });
        Contest { lease, successor }
    }

    /// The holder is told, `answer` has the server answer, and only then somebody else is granted the lease.
    async fn until_the_next_grant(self, answer: impl FnOnce()) {
        let reason = soon("the loss", self.lease.lost()).await;
        let lost = Instant::now();
        assert!(!self.lease.is_valid());
        assert!(matches!(reason, LostReason::OutOfReach { .. }), "{reason}");
        answer();
        let granted = soon("the next grant", self.successor).await.unwrap();
        assert!(lost < granted);
    }
}

#[tokio::test]
async fn a_holder_on_a_stopped_server_is_told_before_the_next_grant() {
    let (server, database) = lent_database().await;
    let contest = Contest::begin(&database, TTL).await;
    server.mongod().pause();
    contest.until_the_next_grant(|| server.mongod().resume()).await;
}

#[tokio::test]
async fn renewals_whose_replies_are_lost_do_not_prolong_the_belief() {
    let Proxied { _server, database, proxy, slow: leases, .. } = proxied(|builder| builder).await;
    let lease = leases.acquire("a").ttl(TTL).await.unwrap();
    let first = expires_at(&database, "a").await;
    let held = proxy.hold_replies_to("update");

    held.held(1).await;
    assert!(expires_at(&database, "a").await > first);
    let reason = soon("the loss", lease.lost()).await;
    assert!(matches!(reason, LostReason::OutOfReach { .. }), "{reason}");
    // Loss is final: the replies arrive, and change nothing.
    held.release();
    let mut events = Listener::of(&leases);
    let _other = leases.acquire("b").ttl(TTL).await.unwrap();
    events.renewals("b", 1).await;
    assert!(!lease.is_valid());
}

#[tokio::test]
async fn validity_counts_from_the_request_and_not_from_the_reply() {
    const TTL: Duration = Duration::from_secs(30);
    const WHILE: Duration = Duration::from_millis(500);
    let Proxied { _server, proxy, slow: leases, .. } = proxied(|builder| builder).await;
    let held = proxy.hold_replies_to("findAndModify");
    let asked = tokio::spawn(leases.acquire("a").ttl(TTL).renew(false).into_future());
    held.held(1).await;
    let granted = Instant::now();
    let later = async || (granted.elapsed() > WHILE).then_some(());
    until("the reply is on its way for a while", later).await;
    let on_its_way = granted.elapsed();
    held.release();
    let lease = asked.await.unwrap().unwrap();
    assert!(lease.remaining() < TTL - on_its_way, "{:?} are left", lease.remaining());
}

#[tokio::test]
async fn a_grant_whose_reply_comes_after_its_end_is_not_handed_out() {
    let proxied = proxied(|builder| builder.max_clock_skew(Duration::ZERO)).await;
    let Proxied { _server, database, proxy, slow: leases, direct: others } = proxied;
    let held = proxy.hold_replies_to("findAndModify");
    let asked = tokio::spawn(leases.acquire("a").ttl(TTL).into_future());
    held.held(1).await;
    let first = expires_at(&database, "a").await.timestamp_millis();
    until_free(&others, "a").await;
    held.release();
    let lease = asked.await.unwrap().unwrap();
    assert!(lease.is_valid());
    assert!(lease.remaining() > Duration::ZERO);
    assert!(lease.expires_at().timestamp_millis() > first);
}

#[tokio::test(start_paused = true)]
async fn the_signal_of_the_loss_is_silent_while_the_lease_is_held() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let lease = leases.acquire("a").ttl(TTL).await.unwrap();
    let signal = lease.cancellation_token();
    tokio::select! {
        reason = lease.lost() => panic!("lost: {reason}"),
        () = signal.cancelled() => panic!("cancelled"),
        () = pass(100 * TTL) => {}
    }
    // A user's copy that is cancelled signals no loss.
    signal.cancel();
    assert!(lease.is_valid());
    let signal = lease.cancellation_token();
    assert!(!signal.is_cancelled());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(signal.is_cancelled());
}

#[tokio::test]
async fn a_lease_that_was_taken_over_is_lost_to_somebody_with_a_name() {
    check(async |backend| {
        let leases = backend.manager().await;
        let others = backend.builder().owner("thief").build().await.unwrap();
        let lease = leases.acquire("a").ttl(2 * TTL).await.unwrap();
        others.release("a", lease.value()).await.unwrap();
        let theirs = granted(&others, "a").await;
        match soon("the loss", lease.lost()).await {
            LostReason::TakenOver { by: Some(by), .. } => assert!(by.starts_with("thief@"), "{by}"),
            reason => panic!("{reason}"),
        }
        assert_not_done(lease.release().await.unwrap());
        assert!(others.get("a").await.unwrap().is_some());
        assert!(theirs.is_valid());
    })
    .await;
}

#[tokio::test]
async fn work_that_outlives_the_lease_is_dropped_and_its_holder_told() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
        let alive = Arc::new(());
        let at_work = Arc::clone(&alive);
        let work = async move {
            let _at_work = at_work;
            std::future::pending::<()>().await;
        };
        let error = soon("the end of the work", lease.run(work)).await.unwrap_err();

        assert!(matches!(error, Error::Lost { reason: LostReason::EndedAsAsked, .. }), "{error}");
        assert_eq!(Arc::strong_count(&alive), 1, "the work is dropped");
        assert!(lease.cancellation_token().is_cancelled());
        assert!(!lease.is_valid() && lease.check().is_err());
        assert!(lease.token().is_err() && lease.remaining().is_zero());
        assert!(lease.detach().await.is_err());
    })
    .await;
}
