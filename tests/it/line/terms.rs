//! A waiter is granted what it asked for, also when another process's release grants it.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Acquire, Lease, LeaseManager, LostReason, Released};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{Waiting, granted, in_line, manager, told_only, told_only_tuning};
use crate::common::{document, migrated};
use crate::patience::{Listener, bounded, expires_at, until};

struct Setup {
    database: TestDatabase,
    holder: LeaseManager,
    lease: Lease,
    leases: LeaseManager,
}

/// A lease that is held, and a manager whose calls wake only by events.
async fn setup(waiter_ttl: Duration) -> Setup {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let lease = holder.acquire("a").await.unwrap();
    let through = database.through(&server.client().await);
    let leases = told_only(&through)
        .tuning(told_only_tuning().waiter_ttl(waiter_ttl))
        .build()
        .await
        .unwrap();
    Setup { database, holder, lease, leases }
}

/// The longest: no heartbeat finds a promotion in place of the event.
const USUAL: Duration = Duration::from_secs(600);

impl Setup {
    async fn wait(&self, change: impl FnOnce(Acquire) -> Acquire) -> Waiting {
        in_line(&self.leases, change(self.leases.acquire("a"))).await
    }
}

/// Returns after this long without an event.
async fn quiet(time: Duration) {
    let started = Instant::now();
    until("time passes", async || (started.elapsed() > time).then_some(())).await;
}

/// The validity of its promotion, counted from its last heartbeat, would be over already.
#[tokio::test]
async fn a_ttl_shorter_than_the_heartbeat_interval_is_granted_anew() {
    let setup = setup(USUAL).await;
    let mut events = Listener::of(&setup.leases);
    let ttl = Duration::from_millis(1_500);
    let waiting = setup.wait(|acquire| acquire.ttl(ttl)).await;
    quiet(ttl * 5 / 4).await;
    setup.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    assert!(lease.is_valid());
    assert!(lease.remaining() <= ttl && lease.remaining() > ttl / 3);
    events.renewals("a", 3).await;
    assert!(lease.is_valid());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(document(&setup.database, "a").await.is_none());
}

/// Too little of the promotion's validity would be left to be of use.
#[tokio::test]
async fn a_waiter_with_little_left_of_a_promotion_gets_the_full_ttl() {
    let setup = setup(USUAL).await;
    let ttl = Duration::from_millis(1_500);
    let waiting = setup.wait(|acquire| acquire.ttl(ttl).renew(false)).await;
    quiet(ttl * 7 / 10).await;
    setup.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    assert!(lease.remaining() > ttl / 2, "{:?}", lease.remaining());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

/// A promotion lasts for the waiter ttl at first, and one renewal gives it the full ttl.
#[tokio::test]
async fn a_lease_without_renewals_is_made_whole_after_a_promotion() {
    let waiter_ttl = Duration::from_millis(1_500);
    let setup = setup(waiter_ttl).await;
    let mut events = Listener::of(&setup.leases);
    let ttl = Duration::from_secs(4);
    let waiting = setup.wait(|acquire| acquire.ttl(ttl).renew(false)).await;
    setup.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    let started = Instant::now();
    let is_renewal =
        |event: &mongo_lease::Event| matches!(event, mongo_lease::Event::Renewed { .. });
    let at_first = lease.remaining();
    // On a busy machine the renewal may come before this look.
    if !events.so_far().iter().any(is_renewal) {
        assert!(at_first <= waiter_ttl, "{at_first:?}");
        events.renewals("a", 1).await;
    }
    assert!(lease.remaining() > ttl * 3 / 4, "{:?}", lease.remaining());
    // And only one renewal.
    assert!(matches!(bounded(lease.lost()).await, LostReason::EndedAsAsked));
    let lasted = started.elapsed();
    assert!(lasted > ttl * 3 / 4, "{lasted:?}");
    let renewed = events.so_far();
    assert!(!renewed.iter().any(is_renewal), "{renewed:?}");
}

/// An early release moves the end of the lease without an event for the waiters: so the first one is told to send
/// another attempt.
#[tokio::test]
async fn a_name_that_is_held_at_least_is_granted_right_at_its_end() {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let least = Duration::from_millis(1_500);
    let lease = holder.acquire("a").hold_at_least(least).await.unwrap();
    let first = manager(server, &database).await;
    let second = manager(server, &database).await;
    let first_in_line = in_line(&first, first.acquire("a")).await;
    let second_in_line = in_line(&second, second.acquire("a")).await;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let until = expires_at(&database, "a").await.timestamp_millis();
    assert!(holder.try_acquire("a").await.unwrap().granted().is_none(), "it is kept");
    let lease = granted(first_in_line).await;
    let info = holder.get("a").await.unwrap().unwrap();
    let late = info.acquired_at.unwrap().timestamp_millis() - until;
    // A heartbeat would tell it after 3.3 s.
    assert!((0..3_000).contains(&late), "{late} ms after the end");
    lease.release().await.unwrap();
    granted(second_in_line).await.release().await.unwrap();
}

/// A promoted waiter keeps the name for as long as it asked.
#[tokio::test]
async fn a_promoted_holder_can_hold_the_name_at_least_for_a_time() {
    let setup = setup(USUAL).await;
    let least = Duration::from_millis(800);
    let waiting = setup.wait(|acquire| acquire.hold_at_least(least)).await;
    setup.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    let found = document(&setup.database, "a").await.unwrap();
    let acquired = *found.get_document("grant").unwrap().get_datetime("acquiredAt").unwrap();
    lease.release().await.unwrap();
    let until = expires_at(&setup.database, "a").await;
    assert_eq!(until.timestamp_millis() - acquired.timestamp_millis(), 800);
}

#[tokio::test]
async fn a_waiter_with_a_value_of_its_own_is_woken() {
    let setup = setup(USUAL).await;
    let waiting = setup.wait(|acquire| acquire.value("$mine")).await;
    setup.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    assert_eq!(lease.value(), "$mine");
    let found = document(&setup.database, "a").await.unwrap();
    assert_eq!(found.get_str("value").unwrap(), "$mine");
    // Known to others by name and value, as in the articles.
    let released = setup.holder.release("a", "$mine").await.unwrap();
    assert_eq!(released, Released::Released);
    assert!(document(&setup.database, "a").await.is_none());
    assert!(lease.renew().await.is_err());
}

/// A call with its own value passes its entry on to no other, because it may come again with the same value. No waiter
/// is forgotten over that.
#[tokio::test]
async fn waiters_with_values_of_their_own_come_and_go() {
    let setup = setup(USUAL).await;
    let waiting = setup.wait(|acquire| acquire.value("mine")).await;
    let next = super::start_waiting(setup.leases.acquire("a").value("yours").owner("yours"));
    super::dropped(waiting).await;
    super::until_line_is(&setup.database, "a", &["yours"]).await;
    let again = super::start_waiting(setup.leases.acquire("a").value("mine"));
    setup.lease.release().await.unwrap();
    let lease = granted(next).await;
    assert_eq!(lease.value(), "yours");
    lease.release().await.unwrap();
    let lease = granted(again).await;
    assert_eq!(lease.value(), "mine");
    lease.release().await.unwrap();
}

/// A text that looks like an expression stays a text. A grant that is larger than the document before it comes as
/// another kind of event.
#[tokio::test]
async fn a_waiters_owner_and_metadata_reach_its_grant_unchanged() {
    let odd = doc! {
        "$set": "$$NOW",
        "a.b": { "$literal": ["$value", "$$ROOT", { "$add": [1, "$expiresAt"] }] },
        "": "$",
    };
    let long = doc! { "text": "$".repeat(3_500) };
    for metadata in [Document::new(), odd, long] {
        let setup = setup(USUAL).await;
        let owner = "$owner.$$x";
        let wanted = metadata.clone();
        let waiting = setup.wait(|acquire| acquire.owner(owner).metadata(metadata)).await;
        setup.lease.release().await.unwrap();
        let lease = granted(waiting).await;
        let info = setup.holder.get("a").await.unwrap().unwrap();
        assert!(info.owner.as_ref().unwrap().starts_with("$owner.$$x@"), "{info:?}");
        assert_eq!(info.metadata, wanted);
        assert_eq!(info.value.as_deref(), Some(lease.value()));
        lease.renew().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
}

/// The cap counts also for a grant by somebody else's release.
#[tokio::test]
async fn a_promoted_lease_ends_at_its_longest_hold() {
    let setup = setup(USUAL).await;
    let cap = Duration::from_millis(700);
    let waiting = setup.wait(|acquire| acquire.ttl(Duration::from_secs(3)).max_hold(cap)).await;
    // Longer than the cap: a validity that counts from the last heartbeat is over.
    quiet(cap + cap / 2).await;
    setup.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    assert!(lease.is_valid());
    assert!(lease.remaining() <= cap && lease.remaining() > cap / 2, "{:?}", lease.remaining());
    assert!(matches!(bounded(lease.lost()).await, LostReason::EndedAsAsked));
    lease.release().await.unwrap();
    assert!(document(&setup.database, "a").await.is_none());
}
