//! Leases that are detached and resumed.

use std::time::Duration;

use mongo_lease::{Acquire, Error, LeaseKey, LeaseManager, LostReason, Released};
use mongo_lease_testbed::TestDatabase;

use crate::common::{assert_done, builder, document, handed_on, setup};
use crate::lent::{behind_a_proxy, lent_database};
use crate::line::{granted, in_line};
use crate::patience::{Listener, bounded, expires_at, until_free};

/// The key of a lease that is detached at once.
async fn detached(call: Acquire) -> LeaseKey {
    call.await.unwrap().detach().await.unwrap()
}

/// The key with another text in this field, as somebody makes it up who knows the rest.
fn forged(key: &LeaseKey, field: &str, text: &str) -> LeaseKey {
    let mut forged = serde_json::to_value(key).unwrap();
    forged[field] = text.into();
    serde_json::from_value(forged).unwrap()
}

/// Why this call found its lease lost.
pub(crate) fn lost<T: std::fmt::Debug>(result: mongo_lease::Result<T>) -> LostReason {
    match result {
        Err(Error::Lost { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_detached_lease_is_taken_up_by_another_manager_from_json() {
    let (database, here) = setup().await;
    let there = builder(&database).build().await.unwrap();
    let lease = here.acquire("a \"$name\" 🔒").await.unwrap();
    let (value, token) = (lease.value().to_owned(), lease.token().unwrap());
    let key = lease.detach().await.unwrap();
    let json = serde_json::to_string(&key).unwrap();
    let carried: LeaseKey = serde_json::from_str(&json).unwrap();
    assert_eq!(carried, key);
    for field in ["name", "value", "grant", "token"] {
        let mut damaged: serde_json::Value = serde_json::from_str(&json).unwrap();
        damaged[field] = serde_json::Value::Null;
        serde_json::from_value::<LeaseKey>(damaged).expect_err(field);
    }
    assert_eq!((carried.name(), carried.value()), ("a \"$name\" 🔒", value.as_str()));
    // A number in JSON would lose digits.
    assert!(json.contains(&format!("\"token\":\"{}\"", token.as_u64())), "{json}");

    here.shutdown().await;
    let resumed = there.resume(carried).await.unwrap();
    assert!(resumed.is_valid());
    assert_eq!((resumed.value(), resumed.token().unwrap()), (value.as_str(), token));
    assert!(resumed.remaining() > Duration::from_secs(20));
    assert_eq!(resumed.release().await.unwrap(), Released::Released);
    assert_eq!(document(&database, key.name()).await, None);
}

/// The document of a lease that several hold may still show the grant of an earlier exclusive holder.
#[tokio::test]
async fn a_forged_key_with_the_value_of_several_holders_is_refused() {
    let (database, leases) = setup().await;
    let key = detached(leases.acquire("a")).await;
    let reader = in_line(&leases, leases.acquire("a").shared()).await;
    assert_done(leases.release_detached(&key).await.unwrap(), "by its key");
    let reader = granted(reader).await;

    let before = document(&database, "a").await;
    let forged = forged(&key, "value", "mongo-lease/shared");
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
async fn a_resumed_lease_keeps_its_ttl_and_is_renewed() {
    let (_database, leases) = setup().await;
    let ttl = Duration::from_secs(6);
    let lease = leases.resume(detached(leases.acquire("a").ttl(ttl)).await).await.unwrap();
    assert!(lease.remaining() <= ttl);
    Listener::of(&leases).renewals("a", 1).await;
    assert!(lease.is_valid());
}

/// The reason with which this key is refused by a resume and by a renewal. Neither changes anything.
async fn refused(database: &TestDatabase, leases: &LeaseManager, key: &LeaseKey) -> LostReason {
    let before = document(database, "a").await;
    let reason = lost(leases.resume(key.clone()).await);
    assert_eq!(lost(leases.renew_detached(key, None).await), reason);
    assert_eq!(document(database, "a").await, before);
    reason
}

#[tokio::test]
async fn the_key_of_a_lost_lease_is_refused_with_the_reason() {
    // The TTL monitor runs once an hour: the document stays.
    let (_server, database) = lent_database().await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let key = detached(leases.acquire("a").ttl(Duration::from_secs(2))).await;
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
    until_free(&leases, "a").await;
    assert!(document(&database, "a").await.is_some());
    let reason = refused(&database, &leases, &key).await;
    assert!(matches!(reason, LostReason::NotRenewed { stood_still: None, .. }), "{reason}");

    let successor = leases.acquire("a").await.unwrap();
    let reason = refused(&database, &leases, &key).await;
    assert!(matches!(reason, LostReason::TakenOver { by: Some(_), .. }), "{reason}");
    successor.release().await.unwrap();
    assert_eq!(refused(&database, &leases, &key).await, LostReason::Removed);

    let removed = leases.acquire("a").await.unwrap();
    leases.release("a", removed.value()).await.unwrap();
    assert_eq!(lost(removed.detach().await), LostReason::Removed);
    assert_eq!(document(&database, "a").await, None);
}

/// The first resume uses a key up, or there would be two holders that both renew.
#[tokio::test]
async fn of_two_resumes_of_one_key_one_gets_the_lease() {
    let (database, here) = setup().await;
    let there = builder(&database).build().await.unwrap();
    for round in 0..10 {
        let key = detached(here.acquire(format!("a:{round}"))).await;
        let token = key.token();
        let (first, second) = tokio::join!(here.resume(key.clone()), there.resume(key.clone()));
        let (lease, error) = match (first, second) {
            (Ok(lease), Err(error)) | (Err(error), Ok(lease)) => (lease, error),
            both => panic!("{both:?}"),
        };
        assert!(matches!(error, Error::Lost { reason: LostReason::Resumed, .. }), "{error}");
        lease.renew().await.unwrap();
        assert_eq!(lease.token().unwrap(), token);
        assert_eq!(lost(here.resume(key).await), LostReason::Resumed);
        // The next key is another one, and equally valid.
        let next = lease.detach().await.unwrap();
        assert_eq!(there.resume(next).await.unwrap().release().await.unwrap(), Released::Released);
    }
}

/// A key is of one grant, and not of a value. Nobody resumed a lease with one that is made up.
#[tokio::test]
async fn a_forged_key_is_not_called_resumed() {
    let (_database, leases) = setup().await;
    let key = detached(leases.acquire("a")).await;
    let held = leases.resume(key.clone()).await.unwrap();
    let made_up = forged(&key, "grant", "made-up.1");
    assert_eq!(lost(leases.resume(made_up).await), LostReason::Removed);
    held.renew().await.unwrap();
    // The control: the key with which it was resumed.
    assert_eq!(lost(leases.resume(key).await), LostReason::Resumed);
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_resume_whose_reply_is_lost_finds_what_it_has_resumed() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let key = detached(leases.acquire("a")).await;
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
    let (database, first) = setup().await;
    let leases = builder(&database).ttl(TTL).build().await.unwrap();
    let lease = handed_on(first.acquire("a").await.unwrap(), &leases).await;
    let key = lease.detach().await.unwrap();
    let held = leases.get("a").await.unwrap().unwrap();
    assert!(held.remaining.unwrap() > TTL / 2, "{held}");
    assert_eq!(held.value.as_deref(), Some(key.value()));
}

#[tokio::test]
async fn a_renewed_detached_lease_keeps_its_key() {
    let (database, here) = setup().await;
    let there = builder(&database).build().await.unwrap();
    let key = detached(here.acquire("a").ttl(Duration::from_secs(60))).await;
    let first = expires_at(&database, "a").await;
    let too_short = there.renew_detached(&key, Some(Duration::from_millis(1))).await.unwrap_err();
    assert!(matches!(too_short, Error::InvalidOption { option: "ttl", .. }), "{too_short}");
    assert_eq!(expires_at(&database, "a").await, first);
    let until = there.renew_detached(&key, None).await.unwrap();
    let second = expires_at(&database, "a").await;
    assert!(second > first);
    assert_eq!(until.timestamp_millis(), second.timestamp_millis());
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
    assert_eq!(lost(here.renew_detached(&key, None).await), LostReason::Resumed);
    lease.renew().await.unwrap();
}
