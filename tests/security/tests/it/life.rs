//! The whole life of leases, as the user with the least privileges, over SCRAM and TLS.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Error, Event, LeaseManager, LostReason, Released, Tuning};

use super::{log_in, set_up, soon};

/// Longer than any test here: no poll, no heartbeat and no expiry comes sooner.
const FOR_LONG: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_lease_is_handed_on_to_who_waits_and_the_stream_wakes_it() {
    let database = set_up().await;
    let manager = async || {
        let ours = log_in(&database).await;
        let patient = LeaseManager::builder(&ours).ttl(FOR_LONG);
        let tuning = Tuning::default().recheck_every(FOR_LONG).waiter_ttl(FOR_LONG);
        patient.tuning(tuning).build().await.unwrap()
    };
    let (first, second) = (manager().await, manager().await);
    let lease = first.acquire("a").await.unwrap();
    assert!(matches!(second.try_acquire("a").await, Ok(Attempt::Busy(_))));

    let mut events = pin!(second.events());
    let waiting = tokio::spawn(second.acquire("a").wait(FOR_LONG).into_future());
    let (mut is_queued, mut is_watching) = (false, false);
    while !(is_queued && is_watching) {
        match soon("it stands in line and is watching", events.next()).await.unwrap() {
            Event::Queued { .. } => is_queued = true,
            Event::Watching => is_watching = true,
            Event::Polling { .. } => is_watching = false,
            _ => {}
        }
    }
    let before = lease.token().unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let lease = soon("the stream wakes who waits", waiting).await.unwrap().unwrap();
    let token = lease.token().unwrap();
    assert!(token > before);
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(second.shutdown().await.left_to_expire.is_empty());
    assert!(first.shutdown().await.left_to_expire.is_empty());
}

#[tokio::test]
async fn a_user_can_renew_list_commit_and_release() {
    let database = set_up().await;
    let ours = log_in(&database).await;
    let leases = LeaseManager::builder(&ours).build().await.unwrap();
    let mut events = pin!(leases.events());
    let lease = leases.acquire("a").await.unwrap();
    assert!(matches!(events.next().await, Some(Event::Granted { .. })));
    lease.renew().await.unwrap();
    assert!(matches!(events.next().await, Some(Event::Renewed { .. })));
    let found = leases.get("a").await.unwrap().expect("it is held");
    assert_eq!(found.value.as_deref(), Some(lease.value()));
    let listed: Vec<_> = leases.list().stream().unwrap().try_collect().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), ["a"]);

    lease.transaction().await.unwrap().commit().await.unwrap();

    let released = leases.release("a", lease.value()).await.unwrap();
    assert_eq!(released, Released::Released);
    let lost = lease.renew().await.unwrap_err();
    assert!(matches!(&lost, Error::Lost { reason: LostReason::Removed, .. }), "{lost:?}");
    let locks = database.collection::<Document>("locks");
    assert_eq!(locks.count_documents(doc! {}).await.unwrap(), 0);
}
