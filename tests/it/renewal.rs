//! A lease lives as long as it is renewed, automatically or by hand, and no longer than its cap.

mod delayed;
mod many;

use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Attempt, Event, LeaseInfo, LeaseManager, LostReason, MemoryStore, Released};
use mongo_lease_testbed::{FailCommand, Server};
use tokio::time::Instant;

use crate::both::check;
use crate::common::{builder, document, migrated, setup};
use crate::lent::lent_setup;
use crate::patience::{Listener, PATIENCE, expires_at, locks, pass, until};

const TTL: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_lease_renews_itself_for_as_long_as_it_is_held() {
    let (database, leases) = setup().await;
    let mut events = Listener::of(&leases);
    let lease = leases.acquire("a").ttl(TTL).await.unwrap();
    let token = lease.token().unwrap();
    let mut expiries = vec![expires_at(&database, "a").await];
    // `memory::time` has the renewals of an hour.
    for _ in 0..2 {
        events.renewals("a", 1).await;
        expiries.push(expires_at(&database, "a").await);
    }
    assert!(lease.is_valid());
    assert_eq!(lease.token().unwrap(), token, "a renewal is no new grant");
    assert!(expiries.is_sorted_by(|earlier, later| earlier < later), "{expiries:?}");
}

#[tokio::test]
async fn a_lease_that_is_not_to_be_renewed_expires() {
    const TTL: Duration = Duration::from_secs(1);
    let database = migrated(Server::shared()).await;
    // So long that the TTL monitor does not remove the document within the test.
    let leases = builder(&database).max_clock_skew(2 * PATIENCE).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let started = Instant::now();
    let lease = leases.acquire("a").ttl(TTL).renew(false).await.unwrap();
    let expires = expires_at(&database, "a").await;

    assert_eq!(lease.lost().await, LostReason::EndedAsAsked);
    assert!(started.elapsed() >= TTL * 9 / 10, "lost after {:?}", started.elapsed());
    assert_eq!(expires_at(&database, "a").await, expires);
    let renewed = events.so_far().iter().any(|event| matches!(event, Event::Renewed { .. }));
    assert!(!renewed);
}

#[tokio::test(start_paused = true)]
async fn a_short_ttl_is_renewed_three_times_and_not_all_the_time() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let ttl = Duration::from_millis(480);
    let lease = leases.acquire("a").ttl(ttl).await.unwrap();
    pass(10 * ttl).await;
    let renewed =
        events.so_far().iter().filter(|event| matches!(event, Event::Renewed { .. })).count();
    assert!((29..=31).contains(&renewed), "{renewed} renewals in ten ttls");
    assert!(lease.is_valid());
}

#[tokio::test]
async fn a_cap_ends_the_lease_however_often_it_is_renewed() {
    const TTL: Duration = Duration::from_secs(3);
    const CAP: Duration = Duration::from_secs(4);
    const SKEW: Duration = Duration::from_secs(30);
    check(async |backend| {
        // So long that the TTL monitor does not remove the document within the test.
        let leases = backend.builder().max_clock_skew(SKEW).build().await.unwrap();
        let mut events = Listener::of(&leases);
        let started = Instant::now();
        let lease = leases.acquire("a").ttl(TTL).max_hold(CAP).await.unwrap();
        events.renewals("a", 1).await;

        assert_eq!(lease.lost().await, LostReason::EndedAsAsked);
        assert!(started.elapsed() >= CAP, "lost after {:?}", started.elapsed());
        // Later callers do not wait longer than for a ttl, and the time that clocks may differ by.
        let left = documents(&leases).await.pop().expect("it stands for a while");
        let stands = (left.expires_at.unwrap() - left.acquired_at.unwrap()).to_std().unwrap();
        assert!(stands <= CAP + TTL / 3 + SKEW + backend.late(), "it stands for {stands:?}");
    })
    .await;
}

#[tokio::test]
async fn hold_at_least_outlasts_a_release_and_a_late_renewal() {
    const HOLD: Duration = Duration::from_secs(15);
    let (server, database, leases) = lent_setup().await;
    let lease = leases.acquire("a").ttl(TTL).hold_at_least(HOLD).await.unwrap();
    let updates = server.command_counts().await.update;

    // The first renewal enters the server, and runs there only after the release.
    let late = FailCommand::on(&["update"]).times(1).block_for(Duration::from_millis(400));
    let late = late.enable(server.uri()).await;
    late.wait_times_entered(1).await;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let released = document(&database, "a").await.unwrap();
    let counted = async || (server.command_counts().await.update >= updates + 2).then_some(());
    until("the late renewal has run", counted).await;

    assert_eq!(document(&database, "a").await.unwrap(), released);
    let grant = released.get_document("grant").unwrap();
    let kept = released.get_datetime("expiresAt").unwrap().timestamp_millis()
        - grant.get_datetime("acquiredAt").unwrap().timestamp_millis();
    assert_eq!(kept, 15_000);
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Busy(_)));
}

#[tokio::test(start_paused = true)]
async fn hold_at_least_keeps_the_name_for_exactly_so_long() {
    let hold = Duration::from_secs(15);
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let started = Instant::now();
    let lease = leases.acquire("a").ttl(TTL).hold_at_least(hold).await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let _next = leases.acquire("a").await.unwrap();
    let took = started.elapsed();
    assert!(took >= hold && took <= hold + Duration::from_millis(5), "granted after {took:?}");
}

#[tokio::test]
async fn an_operator_can_free_a_name_kept_by_hold_at_least() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let lease = leases.acquire("a").hold_at_least(Duration::from_secs(60)).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        assert!(!others.try_acquire("a").await.unwrap().is_granted());
        let kept = others.get("a").await.unwrap().expect("it stays taken");
        assert!(kept.owner.is_some_and(|owner| owner.starts_with("test@")));
        assert!(kept.remaining.is_some_and(|left| left > Duration::from_secs(20)));
        let value = kept.value.expect("a value");
        assert!(LeaseInfo::is_tombstone_value(&value), "{value}");
        backend.assert_done(leases.release("a", value).await.unwrap());
        assert!(leases.try_acquire("a").await.unwrap().granted().is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_comes_late_enough_is_a_plain_delete() {
    let hold = Duration::from_secs(45);
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let lease = leases.acquire("a").hold_at_least(hold).await.unwrap();
    pass(hold).await;
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert_eq!(documents(&leases).await, []);
}

/// Other values of a number.
fn damages() -> Vec<Bson> {
    let several =
        [0.into(), 1.into(), (-1).into(), (-30_000_i64).into(), Bson::Null, "30000".into()];
    let more = [f64::NAN.into(), 1.5.into(), 700.into(), i64::MAX.into(), vec![1, 2].into()];
    several.into_iter().chain(more).collect()
}

/// A resumed lease is valid for what the resume has written, whatever ttl it finds.
#[tokio::test]
async fn a_damaged_ttl_prolongs_no_resumed_lease() {
    let database = migrated(Server::shared()).await;
    // Between two readings of two clocks of one machine.
    let slack = Duration::from_millis(50);
    // A damaged ttl differs from this one, and no renewal comes within a round.
    let build = || builder(&database).ttl(Duration::from_secs(40)).build();
    let (leases, others) = (build().await.unwrap(), build().await.unwrap());
    for field in ["grant.ttlMs", "grant.maxClockSkewMs"] {
        let changes = damages().into_iter().map(|value| doc! { "$set": { field: value } });
        for damage in changes.chain([doc! { "$unset": { field: "" } }]) {
            let name = damage.to_string();
            let key = leases.acquire(&name).await.unwrap().detach().await.unwrap();
            let changed = locks(&database).update_one(doc! { "name": &name }, damage).await;
            assert_eq!(changed.unwrap().matched_count, 1, "{name}");
            let before = expires_at(&database, &name).await;
            let lease = others.resume(key).await.unwrap_or_else(|it| panic!("{name}: {it}"));
            let prolonged = expires_at(&database, &name).await.timestamp_millis();
            assert_eq!(lease.expires_at().timestamp_millis(), prolonged, "{name}");
            assert!(prolonged >= before.timestamp_millis(), "{name}");
            // By the server's clock, which is this machine's.
            let left = u64::try_from(prolonged - DateTime::now().timestamp_millis()).unwrap_or(0);
            assert!(lease.remaining() <= Duration::from_millis(left) + slack, "{name}: {left} ms");
            lease.release().await.unwrap();
        }
    }
}

/// All documents, also those of leases that are free.
async fn documents(leases: &LeaseManager) -> Vec<LeaseInfo> {
    leases.list().with_free().stream().unwrap().try_collect().await.unwrap()
}
