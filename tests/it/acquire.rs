use std::time::Duration;

use mongo_lease::{Attempt, Released};

use crate::both::check;
use crate::common::{SHORT_TTL, document, setup};

#[tokio::test]
async fn a_lease_is_granted_refused_and_granted_again_after_release() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("invoice:42").await.unwrap();
    assert!(lease.is_valid());
    let first = lease.token().unwrap();

    let attempt = leases.try_acquire("invoice:42").await.unwrap();
    assert!(!attempt.is_granted());
    let Attempt::Busy(held) = attempt else { panic!("granted twice") };
    assert_eq!(held.value.as_deref(), Some(lease.value()));
    assert!(held.remaining.unwrap() > Duration::from_secs(25));

    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert_eq!(document(&database, "invoice:42").await, None);
    let again = leases.try_acquire("invoice:42").await.unwrap();
    assert!(again.is_granted());
    let again = again.granted().unwrap();
    assert!(again.token().unwrap() > first);
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_and_its_holder_is_told() {
    check(async |backend| {
        let leases = backend.manager().await;
        let crashed = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
        let key = crashed.detach().await.unwrap();
        let started = tokio::time::Instant::now();
        let lease = leases.acquire("a").await.unwrap();
        // The `recheck_every` is 15 s.
        let longest = SHORT_TTL + Duration::from_secs(1) + backend.late();
        assert!(started.elapsed() < longest, "{:?}", started.elapsed());
        assert!(lease.token().unwrap() > key.token());
        assert_eq!(leases.release("a", key.value()).await.unwrap(), Released::NotHeld);
        assert!(lease.is_valid());
    })
    .await;
}
