use std::time::Duration;

use mongo_lease::Released;

use crate::both::check;
use crate::common::SHORT_TTL;

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
