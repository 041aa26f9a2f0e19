//! The outcomes of a lease's methods.

use mongo_lease::{Error, Released};

use super::check;
use crate::common::TryOnce;
use crate::patience::bounded;

#[tokio::test]
async fn a_value_of_ones_own_finds_its_grant_again() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let first = leases.acquire("a").value("mine").await.unwrap();
        let again = others.acquire("a").value("mine").try_once().await.unwrap();
        let again = again.granted().expect("it is the caller's own");
        assert!(again.token().unwrap() > first.token().unwrap());
        assert!(!others.acquire("a").value("theirs").try_once().await.unwrap().is_granted());
        assert_eq!(others.release("a", "mine").await.unwrap(), Released::Released);
    })
    .await;
}

#[tokio::test]
async fn with_lease_runs_the_work_and_releases() {
    check(async |backend| {
        let leases = backend.manager().await;
        let length = leases.with_lease("a", async |lease| lease.name().len()).await.unwrap();
        assert_eq!(length, 1);
        assert!(leases.get("a").await.unwrap().is_none());
        let lost = leases.with_lease("a", async |lease| {
            leases.release("a", lease.value()).await.unwrap();
            let _ = lease.renew().await;
            std::future::pending::<()>().await;
        });
        assert!(matches!(bounded(lost).await, Err(Error::Lost { .. })));
    })
    .await;
}
