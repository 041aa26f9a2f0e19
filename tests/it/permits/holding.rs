//! Renewal and loss of permits.

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease::{Error, Event, Lease, LostReason, Released};
use mongo_lease_testbed::Server;
use tokio::time::Instant;

use super::{granted, queued};
use crate::both::check;
use crate::common::{SHORT_TTL, builder, migrated};
use crate::patience::{Listener, bounded, locks, until};
use crate::spy::Spy;

/// No time, and too large to be added to one.
const MAX: Bson = Bson::Int64(i64::MAX);

#[tokio::test]
async fn permits_renew_themselves_and_by_hand() {
    check(async |backend| {
        let leases = backend.manager().await;
        let mut events = Listener::of(&leases);
        let semaphore = leases.semaphore("a", 3);
        let ttl = Duration::from_secs(2);
        let held =
            [semaphore.acquire().ttl(ttl).await.unwrap(), semaphore.acquire().await.unwrap()];
        let _exclusive = leases.acquire("b").ttl(ttl).await.unwrap();
        events.renewals("a", 3).await;
        for lease in &held {
            lease.renew().await.unwrap();
            assert!(lease.is_valid());
        }
    })
    .await;
}

#[tokio::test]
async fn an_unrenewed_permit_is_lost_in_time() {
    check(async |backend| {
        let leases = backend.manager().await;
        let semaphore = leases.semaphore("a", 2);
        let lease = semaphore.acquire().ttl(SHORT_TTL).renew(false).await.unwrap();
        assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
        assert!(matches!(lease.token(), Err(Error::Lost { .. })));
    })
    .await;
}

/// Trap 4: the reply to a renewal counts documents. Of two holders in one document, the loss of one must not go
/// unnoticed, and the other one stays.
#[tokio::test]
async fn a_lost_permit_is_noticed_beside_one_of_the_same_process() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let mut events = Listener::of(&leases);
        let semaphore = leases.semaphore("a", 3);
        let ttl = Duration::from_secs(3);
        let first = semaphore.acquire().ttl(ttl).await.unwrap();
        let second = semaphore.acquire().ttl(ttl).await.unwrap();
        assert_eq!(others.release("a", first.value()).await.unwrap(), Released::Released);
        assert_eq!(bounded(first.lost()).await, LostReason::Removed);
        events.renewals("a", 2).await;
        assert!(second.is_valid());
        assert_eq!(second.release().await.unwrap(), Released::Released);
    })
    .await;
}

/// The renewal names all of them, and then renews none. The others are renewed again at once.
#[tokio::test]
async fn a_permit_that_ends_raises_no_alarm_for_others() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let mut events = Listener::of(&leases);
        let semaphore = leases.semaphore("a", 3);
        let held = (0..3).map(|_| semaphore.acquire().ttl(Duration::from_secs(3)).into_future());
        let held = try_join_all(held).await.unwrap();
        assert_eq!(others.release("a", held[0].value()).await.unwrap(), Released::Released);
        let (mut renewed, mut is_lost) = (0, false);
        events
            .find(|event| {
                match event {
                    // On a busy machine a renewal may be late; nothing else is wrong with any.
                    Event::RenewalFailed { reason, .. } => {
                        assert!(!reason.contains("document"), "{reason}");
                    }
                    Event::Renewed { .. } => renewed += 1,
                    Event::Lost { .. } => is_lost = true,
                    _ => {}
                }
                (is_lost && renewed >= 4).then_some(())
            })
            .await;
        assert!(held[1..].iter().all(Lease::is_valid));
    })
    .await;
}

#[tokio::test]
async fn a_taken_over_permit_is_lost_with_the_new_holder() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.builder().owner("thief"));
        let others = others.build().await.unwrap();
        let lease = leases.semaphore("a", 2).acquire().renew(false).await.unwrap();
        others.release("a", lease.value()).await.unwrap();
        let _other = others.acquire("a").await.unwrap();
        let error = lease.renew().await.unwrap_err();
        let Error::Lost { reason: LostReason::TakenOver { by: Some(by), .. }, .. } = error else {
            panic!("{error}");
        };
        assert!(by.starts_with("thief@"), "{by}");
        assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
    })
    .await;
}

#[tokio::test]
async fn a_hundred_permits_are_renewed_by_few_commands() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let leases = mongo_lease::LeaseManager::builder(&database.through(&client));
    let leases = leases.ttl(Duration::from_secs(12)).build().await.unwrap();
    let acquires = (0..100).map(|number| {
        let name = format!("name:{}", number % 40);
        leases.semaphore(name, 5).acquire().into_future()
    });
    let held: Vec<Lease> = bounded(try_join_all(acquires)).await.unwrap();
    let mut events = Listener::of(&leases);
    spy.names();
    let started = Instant::now();
    let mut renewed = 0;
    events
        .find(|event| {
            renewed += usize::from(matches!(event, Event::Renewed { .. }));
            (renewed == 100).then_some(())
        })
        .await;
    let renewals = spy.names().iter().filter(|name| *name == "update").count();
    // However long the grants took: each command renews what is due within a sixteenth of the period, a third of the
    // ttl. One for each permit would be a hundred in a period.
    let periods = 1 + started.elapsed().as_secs() / 4;
    assert!(renewals as u64 <= 17 * periods, "{renewals} renewals in {periods} periods");
    assert!(held.iter().all(Lease::is_valid));
}

/// One command renews them all, and its answer is one.
#[tokio::test]
async fn a_damaged_number_fails_no_other_renewal() {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).ttl(Duration::from_secs(3)).build().await.unwrap();
    let names = ["count", "sound", "time", "times"];
    let acquires = names.map(|name| leases.semaphore(name, 2).acquire().into_future());
    let held = bounded(try_join_all(acquires)).await.unwrap();
    let damages = [
        ("count", "writes", "many".into()),
        ("time", "ttlMs", "long".into()),
        ("times", "ttlMs", MAX),
    ];
    for (name, field, damage) in damages {
        let change = doc! { "$set": { format!("holders.0.{field}"): damage } };
        let changed = locks(&database).update_one(doc! { "name": name }, change).await.unwrap();
        assert_eq!(changed.modified_count, 1);
    }
    let mut events = Listener::of(&leases);
    // For longer than a lease lasts.
    events.renewals("sound", 4).await;
    for lease in &held[..2] {
        assert!(lease.is_valid(), "{}", lease.name());
    }
}

/// Trap 7: the expiry of the document is that of the last holder to expire, after each kind of write. With an earlier
/// one the TTL monitor and exclusive calls would end what is held, and with a later one a holder that has left would
/// keep the name from others.
#[tokio::test]
async fn the_documents_expiry_is_the_latest_holders() {
    check(async |backend| {
        let leases = backend.manager().await;
        let latest = async || {
            let shown = leases.get("a").await.unwrap().expect("it is held");
            let latest = shown.holders.iter().filter_map(|holder| holder.expires_at).max();
            assert_eq!(shown.expires_at, latest, "{shown:?}");
            latest.expect("a holder")
        };
        let semaphore = leases.semaphore("a", 4);
        let hold = |secs| semaphore.acquire().ttl(Duration::from_secs(secs)).renew(false);

        // The fast form, renewals, and the releases of one holder of several.
        let long = hold(100).await.unwrap();
        let first = latest().await;
        let short = hold(10).await.unwrap();
        assert_eq!(latest().await, first);
        short.renew().await.unwrap();
        assert_eq!(latest().await, first);
        until("a renewal prolongs the latest holder", async || {
            long.renew().await.unwrap();
            (latest().await > first).then_some(())
        })
        .await;
        long.release().await.unwrap();
        let shortest = latest().await;
        assert!(shortest < first);
        let middle = hold(50).await.unwrap();
        assert!(latest().await > shortest);
        middle.release().await.unwrap();
        assert_eq!(latest().await, shortest);

        // The slow form, and an admission by a release.
        let long = hold(100).value("long").await.unwrap();
        let longest = latest().await;
        let brief = hold(5).value("brief").permits(2).await.unwrap();
        assert_eq!(latest().await, longest);
        let (_waiter, call) = queued(&backend, |leases| leases.semaphore("a", 4).acquire()).await;
        brief.release().await.unwrap();
        let promoted = granted(call).await;
        assert_eq!(latest().await, longest);
        long.release().await.unwrap();
        assert!(latest().await < longest);
        promoted.release().await.unwrap();
        short.release().await.unwrap();
        backend.until_nothing_is_left().await;
    })
    .await;
}
