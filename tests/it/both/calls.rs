//! The outcomes of a manager's methods.

use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::{Error, LostReason, Released};

use super::check;
use crate::common::{SHORT_TTL, TryOnce, assert_not_done};
use crate::keys::lost;
use crate::patience::{bounded, soon, until};

#[tokio::test]
async fn bad_names_and_options_are_refused_before_anything_is_sent() {
    check(async |backend| {
        let leases = backend.manager().await;
        let error = leases.acquire("").await.unwrap_err();
        assert!(matches!(error, Error::InvalidName { .. }), "{error}");
        let calls = [
            (leases.acquire("a").ttl(Duration::from_millis(1)), "ttl: "),
            (leases.acquire("a").value("released:1"), "value: "),
            (leases.acquire("a").max_hold(Duration::from_millis(1)), "max_hold: "),
            (leases.acquire("a").metadata("text"), "metadata: must be a document"),
            (leases.acquire("a").metadata([1, 2]), "metadata: must be a document"),
            (leases.acquire("a").metadata(None::<u8>), "metadata: must be a document"),
        ];
        for (call, begin) in calls {
            let error = call.await.unwrap_err();
            assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
            assert!(error.to_string().starts_with(begin), "{error}");
        }
        let error = leases.release("a", "a\0").await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        for bad in ["a\0b".to_owned(), "x".repeat(1_025)] {
            for list in [leases.list().prefix(&bad), leases.list().glob(&bad)] {
                let error = list.stream().err().expect("refused");
                assert!(matches!(error, Error::InvalidOption { option: "pattern", .. }), "{error}");
            }
        }
        assert!(leases.get("a").await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_detached_lease_is_renewed_resumed_once_and_released() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let lease = leases.acquire("a").await.unwrap();
        let expires_at = lease.expires_at();
        let key = lease.detach().await.unwrap();
        let later = Duration::from_secs(60);
        assert!(others.renew_detached(&key, Some(later)).await.unwrap() > expires_at);
        let resumed = others.resume(key.clone()).await.unwrap();
        assert_eq!(resumed.token().unwrap(), key.token());
        assert_eq!(lost(leases.resume(key.clone()).await), LostReason::Resumed);
        assert!(leases.renew_detached(&key, None).await.is_err());
        assert_not_done(leases.release_detached(&key).await.unwrap());
        let key = resumed.detach().await.unwrap();
        backend.assert_done(leases.release_detached(&key).await.unwrap());
        assert_eq!(lost(leases.resume(key).await), LostReason::Removed);
    })
    .await;
}

#[tokio::test]
async fn more_leases_than_a_page_are_listed_in_order_and_filtered() {
    check(async |backend| {
        let leases = backend.manager().await;
        let names: Vec<String> = (0..130).map(|number| format!("job:{number:03}")).collect();
        for name in &names {
            let acquire = leases.acquire(name).owner("lister").ttl(Duration::from_secs(600));
            acquire.await.unwrap().detach().await.unwrap();
        }
        let brief = leases.acquire("other").ttl(SHORT_TTL).renew(false).await.unwrap();
        bounded(brief.lost()).await;
        let listed = async |list: mongo_lease::List| -> Vec<String> {
            let infos: Vec<_> = list.stream().unwrap().try_collect().await.unwrap();
            infos.into_iter().map(|info| info.name).collect()
        };
        assert_eq!(listed(leases.list().prefix("job:")).await, names);
        assert_eq!(listed(leases.list().glob("j?b:*7")).await.len(), 13);
        assert_eq!(listed(leases.list().glob("j\\?b:*")).await.len(), 0);
        let owner = leases.get("job:000").await.unwrap().unwrap().owner.unwrap();
        assert_eq!(listed(leases.list().held_by(owner)).await, names);
        // Its time is over for its holder first, and a second later for the store.
        let gone = async || (listed(leases.list()).await == names).then_some(());
        until("the expired lease is not listed", gone).await;
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
        let ended = leases.with_lease("a", async |lease| {
            leases.release("a", lease.value()).await.unwrap();
            let _ = lease.renew().await;
            std::future::pending::<()>().await;
        });
        assert!(matches!(bounded(ended).await, Err(Error::Lost { .. })));
        // Where the future is dropped, so is the work.
        let (alive, mut end) = tokio::sync::mpsc::channel::<()>(1);
        let mut running = Box::pin(leases.with_lease("a", async move |_lease| {
            alive.send(()).await.unwrap();
            std::future::pending::<()>().await;
        }));
        tokio::select! {
            result = &mut running => panic!("{result:?}"),
            begun = end.recv() => begun.unwrap(),
        }
        drop(running);
        assert_eq!(soon("the work is dropped", end.recv()).await, None);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_release_by_value_says_whether_the_lease_was_held() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").await.unwrap();
        assert_eq!(backend.release(&leases, "a", "another").await, Released::NotHeld);
        assert!(leases.get("a").await.unwrap().is_some_and(|info| info.held_here));
        backend.assert_done(leases.release("a", lease.value()).await.unwrap());
        assert_eq!(backend.release(&leases, "a", lease.value()).await, Released::NotHeld);
        assert_eq!(lost(lease.renew().await), LostReason::Removed);
        assert_eq!(lease.lost().await, LostReason::Removed);
        assert!(!lease.is_valid() && leases.get("a").await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_value_of_ones_own_finds_its_grant_again() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let first = leases.acquire("a").value("mine").await.unwrap();
        let again = others.acquire("a").value("mine").try_once().await.unwrap();
        let again = again.granted().expect("it is the caller's own");
        assert!(again.token().unwrap() > first.token().unwrap());
        assert!(!others.acquire("a").value("theirs").try_once().await.unwrap().is_granted());
        backend.assert_done(others.release("a", "mine").await.unwrap());
    })
    .await;
}
