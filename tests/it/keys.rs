//! Leases that are detached and resumed.

use std::future::IntoFuture;
use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document};
use mongo_lease::{Error, LeaseKey, LeaseManager, LostReason, Released};
use mongo_lease_testbed::Server;

use crate::both::check;
use crate::common::{SHORT_TTL, builder, document, migrated, setup};
use crate::lent::{behind_a_proxy, lent_database};
use crate::patience::{bounded, until};

#[tokio::test]
async fn a_detached_lease_is_taken_up_by_another_manager_from_json() {
    let database = migrated(Server::shared()).await;
    let here = builder(&database).build().await.unwrap();
    let there = builder(&database).build().await.unwrap();
    let lease = here.acquire("a \"$name\" 🔒").await.unwrap();
    let (value, token) = (lease.value().to_owned(), lease.token().unwrap());
    let key = lease.detach().await.unwrap();
    let json = serde_json::to_string(&key).unwrap();
    let carried: LeaseKey = serde_json::from_str(&json).unwrap();
    assert_eq!(carried, key);
    assert_eq!((carried.name(), carried.value()), ("a \"$name\" 🔒", value.as_str()));
    // A number in JSON would lose digits.
    assert!(json.contains(&format!("\"token\":\"{}\"", token.as_u64())), "{json}");

    here.shutdown().await;
    let resumed = there.resume(carried).await.unwrap();
    assert!(resumed.is_valid());
    assert_eq!((resumed.value(), resumed.token().unwrap()), (value.as_str(), token));
    assert!(resumed.remaining() > Duration::from_secs(25));
    assert_eq!(resumed.release().await.unwrap(), Released::Released);
    assert_eq!(document(&database, key.name()).await, None);
}

#[tokio::test]
async fn a_detached_lease_is_held_and_not_renewed() {
    check(async |backend| {
        let leases = backend.manager().await;
        let key = leases.acquire("a").ttl(SHORT_TTL).await.unwrap().detach().await.unwrap();
        assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
        // It expires, and is then granted to somebody else.
        let successor = leases.acquire("a").await.unwrap();
        let error = leases.resume(key).await.unwrap_err();
        let Error::Lost { reason, .. } = error else { panic!("{error}") };
        assert!(matches!(reason, LostReason::TakenOver { by: Some(_), .. }), "{reason}");
        assert!(successor.is_valid());
    })
    .await;
}

/// The document of a lease that several hold may still show the grant of an earlier exclusive holder.
#[tokio::test]
async fn a_forged_key_with_the_value_of_several_holders_is_refused() {
    let (database, leases) = setup().await;
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let reader = leases.acquire("a").shared().wait(Duration::from_secs(60)).into_future();
    let reader = tokio::spawn(reader);
    let waits = async || (leases.get("a").await.unwrap()?.waiting == 1).then_some(());
    until("the reader waits", waits).await;
    assert_eq!(leases.release_detached(&key).await.unwrap(), Released::Released);
    let reader = bounded(reader).await.unwrap().unwrap();

    let before = document(&database, "a").await;
    let mut forged = serde_json::to_value(&key).unwrap();
    forged["value"] = "mongo-lease/shared".into();
    let forged: LeaseKey = serde_json::from_value(forged).unwrap();
    let refused = [
        leases.resume(forged.clone()).await.map(drop),
        leases.renew_detached(&forged, None).await.map(drop),
        leases.release_detached(&forged).await.map(drop),
    ];
    for result in refused {
        assert!(matches!(result, Err(Error::InvalidOption { .. })), "{result:?}");
    }
    assert_eq!(document(&database, "a").await, before);
    assert_eq!(reader.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_used_key_releases_nothing_and_a_good_one_does() {
    let (database, leases) = setup().await;
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let resumed = leases.resume(key.clone()).await.unwrap();
    assert_eq!(leases.release_detached(&key).await.unwrap(), Released::NotHeld);
    assert_eq!(resumed.renew().await.map_err(|error| error.to_string()), Ok(()));

    let key = resumed.detach().await.unwrap();
    // A renewal leaves the key good.
    leases.renew_detached(&key, None).await.unwrap();
    assert_eq!(leases.release_detached(&key).await.unwrap(), Released::Released);
    assert_eq!(document(&database, "a").await, None);
    assert_eq!(leases.release_detached(&key).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
async fn a_resumed_lease_keeps_its_ttl_and_is_renewed() {
    let (database, leases) = setup().await;
    let key =
        leases.acquire("a").ttl(Duration::from_millis(600)).await.unwrap().detach().await.unwrap();
    let lease = leases.resume(key).await.unwrap();
    assert!(lease.remaining() <= Duration::from_millis(600));
    let first = document(&database, "a").await.unwrap();
    let renewed = bounded(async {
        loop {
            let found = document(&database, "a").await.unwrap();
            if found != first {
                break found;
            }
        }
    })
    .await;
    assert!(expiry(&renewed) > expiry(&first));
    assert!(lease.is_valid());
}

#[tokio::test]
async fn an_expired_lease_is_not_taken_up_although_nobody_has_it() {
    // The TTL monitor runs once a minute: the document stays.
    let (_server, database) = lent_database().await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let key = leases.acquire("a").ttl(SHORT_TTL).await.unwrap().detach().await.unwrap();
    bounded(async { while leases.get("a").await.unwrap().is_some() {} }).await;
    let before = document(&database, "a").await;
    assert!(before.is_some());
    let error = leases.resume(key).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::NotRenewed, .. }), "{error}");
    assert_eq!(document(&database, "a").await, before);
}

#[tokio::test]
async fn a_released_lease_is_not_taken_up() {
    check(async |backend| {
        let leases = backend.manager().await;
        let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
        assert_eq!(leases.release("a", key.value()).await.unwrap(), Released::Released);
        let error = leases.resume(key).await.unwrap_err();
        assert!(matches!(error, Error::Lost { reason: LostReason::Removed, .. }), "{error}");
    })
    .await;
}

/// The same value, granted again after its release: another grant than the key's.
#[tokio::test]
async fn a_key_is_of_one_grant_and_not_of_a_value() {
    check(async |backend| {
        let leases = backend.manager().await;
        let key = leases.acquire("a").value("mine").await.unwrap().detach().await.unwrap();
        assert_eq!(leases.release("a", "mine").await.unwrap(), Released::Released);
        let again = leases.acquire("a").value("mine").await.unwrap();
        let error = leases.resume(key).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        assert!(again.is_valid());
        again.renew().await.unwrap();
    })
    .await;
}

/// The first resume uses a key up, or there would be two holders that both renew.
#[tokio::test]
async fn of_two_resumes_of_one_key_one_gets_the_lease() {
    let (database, here) = setup().await;
    let there = builder(&database).build().await.unwrap();
    for round in 0..10 {
        let key = here.acquire(format!("a:{round}")).await.unwrap().detach().await.unwrap();
        let token = key.token();
        let (first, second) = tokio::join!(here.resume(key.clone()), there.resume(key.clone()));
        let (lease, error) = match (first, second) {
            (Ok(lease), Err(error)) | (Err(error), Ok(lease)) => (lease, error),
            both => panic!("{both:?}"),
        };
        assert!(matches!(error, Error::Lost { reason: LostReason::Resumed, .. }), "{error}");
        lease.renew().await.unwrap();
        assert_eq!(lease.token().unwrap(), token);
        let later = here.resume(key).await.unwrap_err();
        assert!(matches!(later, Error::Lost { reason: LostReason::Resumed, .. }), "{later}");
        // The next key is another one, and equally valid.
        let next = lease.detach().await.unwrap();
        assert_eq!(there.resume(next).await.unwrap().release().await.unwrap(), Released::Released);
    }
}

/// Somebody who knows the name and the value makes a key up. Nobody resumed a lease with it.
#[tokio::test]
async fn a_forged_key_is_not_called_resumed() {
    let (_database, leases) = setup().await;
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let mut forged = serde_json::to_value(&key).unwrap();
    forged["grant"] = "made-up.1".into();
    let forged: LeaseKey = serde_json::from_value(forged).unwrap();
    let held = leases.resume(key.clone()).await.unwrap();
    let error = leases.resume(forged).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Removed, .. }), "{error}");
    // The control: the key with which it was resumed.
    let error = leases.resume(key).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Resumed, .. }), "{error}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_resume_whose_reply_is_lost_finds_what_it_has_resumed() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let lost = proxy.lose_next_reply("findAndModify");
    let lease = bounded(leases.resume(key)).await.unwrap();
    bounded(lost.lost()).await;
    lease.renew().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

/// At first such a lease lasts as long as its waiter's queue entry lives.
#[tokio::test]
async fn a_lease_that_was_handed_on_is_detached_for_its_whole_ttl() {
    const TTL: Duration = Duration::from_secs(600);
    let (database, leases) = setup().await;
    let first = leases.acquire("a").await.unwrap();
    let others = builder(&database).build().await.unwrap();
    let waiting = tokio::spawn(others.acquire("a").ttl(TTL).into_future());
    let has_joined = async || {
        let found = document(&database, "a").await?;
        (!found.get_array("queue").ok()?.is_empty()).then_some(())
    };
    until("it waits", has_joined).await;
    first.release().await.unwrap();
    let lease = bounded(waiting).await.unwrap().unwrap();
    let key = lease.detach().await.unwrap();
    let held = leases.get("a").await.unwrap().unwrap();
    assert!(held.remaining.unwrap() > TTL / 2, "{held}");
    assert_eq!(held.value.as_deref(), Some(key.value()));
}

#[tokio::test]
async fn a_renewed_detached_lease_keeps_its_key() {
    let (database, here) = setup().await;
    let there = builder(&database).build().await.unwrap();
    let key = here.acquire("a").ttl(Duration::from_secs(60)).await.unwrap().detach().await.unwrap();
    let first = document(&database, "a").await.unwrap();
    let until = there.renew_detached(&key, None).await.unwrap();
    let second = document(&database, "a").await.unwrap();
    assert!(expiry(&second) > expiry(&first));
    assert_eq!(until.timestamp_millis(), expiry(&second).timestamp_millis());
    // With another ttl, which the next renewals keep.
    let longer = there.renew_detached(&key, Some(Duration::from_secs(600))).await.unwrap();
    assert!(longer > until + Duration::from_secs(500), "{until}, {longer}");
    let kept = here.renew_detached(&key, None).await.unwrap();
    assert!(kept >= longer, "{longer}, {kept}");
    // It never becomes earlier.
    let shorter = here.renew_detached(&key, Some(Duration::from_secs(5))).await.unwrap();
    assert!(shorter >= kept, "{kept}, {shorter}");
    let lease = there.resume(key.clone()).await.unwrap();
    assert_eq!(lease.token().unwrap(), key.token());
    let error = here.renew_detached(&key, None).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Resumed, .. }), "{error}");
    lease.renew().await.unwrap();
}

#[tokio::test]
async fn a_ttl_that_is_too_short_renews_no_detached_lease() {
    let (database, leases) = setup().await;
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let before = document(&database, "a").await;
    let error = leases.renew_detached(&key, Some(Duration::from_millis(1))).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { option: "ttl", .. }), "{error}");
    assert_eq!(document(&database, "a").await, before);
}

#[tokio::test]
async fn a_detached_lease_that_is_lost_is_not_renewed() {
    // The TTL monitor runs once a minute: the document stays.
    let (_server, database) = lent_database().await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let key = leases.acquire("a").ttl(SHORT_TTL).await.unwrap().detach().await.unwrap();
    bounded(async { while leases.get("a").await.unwrap().is_some() {} }).await;
    let expired = document(&database, "a").await;
    let error = leases.renew_detached(&key, None).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::NotRenewed, .. }), "{error}");
    assert_eq!(document(&database, "a").await, expired);

    let successor = leases.acquire("a").await.unwrap();
    let error = leases.renew_detached(&key, None).await.unwrap_err();
    let Error::Lost { reason, .. } = error else { panic!("{error}") };
    assert!(matches!(reason, LostReason::TakenOver { by: Some(_), .. }), "{reason}");
    successor.release().await.unwrap();
    let error = leases.renew_detached(&key, None).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Removed, .. }), "{error}");
}

#[tokio::test]
async fn a_lease_that_is_lost_is_not_detached() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    leases.release("a", lease.value()).await.unwrap();
    let error = lease.detach().await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Removed, .. }), "{error}");
    assert_eq!(document(&database, "a").await, None);
}

fn expiry(document: &Document) -> DateTime {
    *document.get_datetime("expiresAt").unwrap()
}
