//! Renewal and loss of permits.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease::{Event, Lease, LostReason, Released};

use super::{granted, permits, queued};
use crate::both::check;
use crate::common::{assert_done, known_release, prompt, setup};
use crate::patience::{Listener, bounded, locks, until};

/// Trap 4: the reply to a renewal counts documents. The renewal names all holders of one, and then renews none. The
/// loss is noticed, and the others are renewed again at once.
#[tokio::test]
async fn a_permit_that_ends_raises_no_alarm_for_others() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let mut events = Listener::of(&leases);
        let acquire = || permits(1, 3)(&leases).ttl(Duration::from_secs(6)).into_future();
        let held = try_join_all((0..3).map(|_| acquire())).await.unwrap();
        assert_eq!(known_release(&others, "a", "another").await, Released::NotHeld);
        assert_done(others.release("a", held[0].value()).await.unwrap(), "one of the holders");
        assert_eq!(known_release(&others, "a", held[0].value()).await, Released::NotHeld);
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
        assert_eq!(held[0].lost().await, LostReason::Removed);
        for other in held.into_iter().skip(1) {
            assert!(other.is_valid());
            assert_eq!(other.release().await.unwrap(), Released::Released);
        }
    })
    .await;
}

/// One command renews them all, and its answer is one.
#[tokio::test]
async fn a_damaged_number_fails_no_other_renewal() {
    let (database, _) = setup().await;
    let leases = prompt(&database).ttl(Duration::from_secs(6)).build().await.unwrap();
    let names = ["count", "sound", "time", "times"];
    let acquires = names.map(|name| leases.semaphore(name, 2).acquire().into_future());
    let held = bounded(try_join_all(acquires)).await.unwrap();
    // The number is no time, and too large to be added to one.
    let (text, huge) = (Bson::from("many"), Bson::from(i64::MAX));
    let damages =
        [("count", "writes", text.clone()), ("time", "ttlMs", text), ("times", "ttlMs", huge)];
    for (name, field, damage) in damages {
        let change = doc! { "$set": { format!("holders.0.{field}"): damage } };
        let changed = locks(&database).update_one(doc! { "name": name }, change).await.unwrap();
        assert_eq!(changed.modified_count, 1);
    }
    let mut events = Listener::of(&leases);
    // In whatever order.
    let mut left = BTreeSet::from(["count", "sound"]);
    let all_are_renewed = |event: &Event| {
        if let Event::Renewed { name, .. } = event {
            left.remove(&**name);
        }
        left.is_empty().then_some(())
    };
    events.find(all_are_renewed).await;
    assert!(held[..2].iter().all(Lease::is_valid), "{held:?}");
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
        let hold = |secs| permits(1, 4)(&leases).ttl(Duration::from_secs(secs)).renew(false);

        // The fast form, and renewals.
        let long = hold(100).await.unwrap();
        let first = latest().await;
        let short = hold(10).await.unwrap();
        assert_eq!(latest().await, first);
        assert!(short.expires_at() < long.expires_at(), "each by its own ttl");
        short.renew().await.unwrap();
        assert_eq!(latest().await, first);
        let told = long.expires_at();
        until("a renewal prolongs the latest holder", async || {
            long.renew().await.unwrap();
            (latest().await > first).then_some(())
        })
        .await;
        assert!(long.expires_at() > told);

        // The slow form, an admission by a release, and the release of one holder of several.
        let longest = latest().await;
        let brief = hold(5).value("brief").permits(2).await.unwrap();
        assert_eq!(latest().await, longest);
        let (_waiter, call) = queued(&backend, permits(1, 4)).await;
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
