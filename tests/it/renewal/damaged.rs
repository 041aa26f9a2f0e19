//! Another program damages the numbers of a holder. Two holders are never valid at once, and nobody loses what it has.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::{join, join_all, select, try_join_all};
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Acquire, Event, Lease, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{builder, migrated};
use crate::patience::{Listener, bounded, expires_at, locks};

const TTL: Duration = Duration::from_secs(2);

/// More than two ttls and the maximum clock skew.
const RENEWALS: usize = 7;

/// Other values of a number. `None` removes it.
fn damages() -> Vec<Option<Bson>> {
    let several =
        [0.into(), 1.into(), (-1).into(), (-30_000_i64).into(), Bson::Null, "30000".into()];
    let more = [f64::NAN.into(), 1.5.into(), 700.into(), i64::MAX.into(), vec![1, 2].into()];
    several.into_iter().chain(more).map(Some).chain([None]).collect()
}

/// Between two readings of two clocks of one machine.
const SLACK: Duration = Duration::from_millis(50);

async fn managers(database: &TestDatabase) -> (LeaseManager, LeaseManager) {
    let skew = Duration::from_millis(500);
    let build = || builder(database).ttl(TTL).max_clock_skew(skew).build();
    (build().await.unwrap(), build().await.unwrap())
}

/// Damages this number of each lease in one of the ways; returns what was done to each.
async fn damage(database: &TestDatabase, held: &[Lease], field: &str) -> HashMap<String, String> {
    let mut done = HashMap::new();
    for (lease, damage) in held.iter().zip(damages()) {
        let update = match damage.clone() {
            Some(value) => doc! { "$set": { field: value } },
            None => doc! { "$unset": { field: "" } },
        };
        let of_name = doc! { "name": lease.name() };
        let changed = locks(database).update_one(of_name, update).await.unwrap();
        assert_eq!(changed.matched_count, 1, "{field}: {damage:?}");
        done.insert(lease.name().to_owned(), format!("{field}: {damage:?}"));
    }
    done
}

/// Renews the leases while others want them. Nobody is granted one that its holder believes in, and no holder loses it.
async fn nobody_else_believes(
    (leases, others): (LeaseManager, LeaseManager),
    database: &TestDatabase,
    field: &str,
    acquire: impl Fn(&LeaseManager, String) -> Acquire,
) {
    let names = (0..damages().len()).map(|number| format!("{field}:{number}"));
    let mut events = Listener::of(&leases);
    let held = try_join_all(names.map(|name| acquire(&leases, name).into_future()));
    let held = bounded(held).await.unwrap();
    let done = damage(database, &held, field).await;
    let renewed = async {
        let mut times: HashMap<String, usize> = HashMap::new();
        events
            .find(|event| {
                if let Event::Renewed { name, .. } = event {
                    *times.entry(name.clone()).or_default() += 1;
                }
                let is_enough = |name: &String| times.get(name).is_some_and(|it| *it >= RENEWALS);
                done.keys().all(is_enough).then_some(())
            })
            .await;
    };
    let granted = async {
        let waiting = held.iter().map(async |lease| {
            let other = acquire(&others, lease.name().to_owned()).await.unwrap();
            let damage = &done[lease.name()];
            assert!(!(lease.is_valid() && other.is_valid()), "two believe after {damage}");
            damage.clone()
        });
        join_all(waiting).await
    };
    bounded(select(Box::pin(renewed), Box::pin(granted))).await;
    for lease in held {
        assert!(lease.is_valid(), "lost after {}", done[lease.name()]);
        lease.release().await.unwrap();
    }
}

/// Damages each number of the record at this path, all at the same time.
async fn no_damage_shortens(record: &str, acquire: impl Fn(&LeaseManager, String) -> Acquire) {
    let database = migrated(Server::shared()).await;
    let numbers = ["ttlMs", "maxClockSkewMs", "writes", "sentMicros"];
    join_all(numbers.map(async |number| {
        let (field, managers) = (format!("{record}.{number}"), managers(&database).await);
        nobody_else_believes(managers, &database, &field, &acquire).await;
    }))
    .await;
}

fn exclusive(leases: &LeaseManager, name: String) -> Acquire {
    leases.acquire(name).wait_forever()
}

/// All permits of the limit: nobody fits beside the holder.
fn all_permits(leases: &LeaseManager, name: String) -> Acquire {
    leases.semaphore(name, 2).acquire().permits(2).wait_forever()
}

#[tokio::test]
async fn a_damaged_ttl_shortens_no_exclusive_lease() {
    no_damage_shortens("grant", exclusive).await;
}

#[tokio::test]
async fn a_damaged_number_shortens_no_permit() {
    no_damage_shortens("holders.0", all_permits).await;
}

/// A resumed lease is valid for what the resume has written, whatever ttl it finds.
#[tokio::test]
async fn a_damaged_ttl_prolongs_no_resumed_lease() {
    let database = migrated(Server::shared()).await;
    for field in ["grant.ttlMs", "grant.maxClockSkewMs"] {
        let (leases, others) = managers(&database).await;
        for (number, damage) in damages().into_iter().enumerate() {
            let name = format!("{field}:{number}");
            let key = leases.acquire(&name).await.unwrap().detach().await.unwrap();
            let update = match damage.clone() {
                Some(value) => doc! { "$set": { field: value } },
                None => doc! { "$unset": { field: "" } },
            };
            locks(&database).update_one(doc! { "name": &name }, update).await.unwrap();
            let before = expires_at(&database, &name).await;
            let lease = others.resume(key).await.unwrap_or_else(|it| panic!("{damage:?}: {it}"));
            let prolonged = expires_at(&database, &name).await;
            let remaining = lease.remaining();
            let is_told = lease.expires_at().timestamp_millis() == prolonged.timestamp_millis();
            assert!(is_told, "{field}: {damage:?}");
            assert!(prolonged >= before, "{field}: {damage:?}");
            // By the server's clock, which is this machine's.
            let left = prolonged.timestamp_millis() - DateTime::now().timestamp_millis();
            let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            assert!(remaining <= left + SLACK, "{field}: {damage:?}: {remaining:?} of {left:?}");
            lease.release().await.unwrap();
        }
    }
}

/// Another program damages the numbers of a waiter's queue entry. The waiter believes no longer than the server.
async fn no_promotion_is_believed_beyond_its_expiry(
    acquire: impl Fn(&LeaseManager, String) -> Acquire,
) {
    let database = migrated(Server::shared()).await;
    let damages = [0_i64, 1, -1, -30_000, i64::MIN, 700].into_iter().enumerate();
    let fields = ["ttlMs", "maxClockSkewMs"].into_iter();
    for (field, (number, damage)) in
        fields.flat_map(|field| damages.clone().map(move |it| (field, it)))
    {
        let (leases, others) = managers(&database).await;
        let name = format!("{field}:{number}");
        let held = acquire(&leases, name.clone()).await.unwrap();
        let mut events = Listener::of(&others);
        let waiting = acquire(&others, name.clone()).into_future();
        let damaged = async {
            events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
            let (of_name, field) = (doc! { "name": &name }, format!("queue.0.{field}"));
            let update = doc! { "$set": { &field: damage } };
            let changed = locks(&database).update_one(of_name, update).await.unwrap();
            assert_eq!(changed.modified_count, 1, "{field}: {damage}");
            held.release().await.unwrap();
        };
        let (lease, ()) = bounded(join(waiting, damaged)).await;
        let lease = lease.unwrap();
        // By the server's clock, which is this machine's.
        let left = lease.expires_at().timestamp_millis() - DateTime::now().timestamp_millis();
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let remaining = lease.remaining();
        assert!(remaining <= left + SLACK, "{field}: {damage}: {remaining:?} of {left:?}");
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_entry_prolongs_no_promotion() {
    no_promotion_is_believed_beyond_its_expiry(exclusive).await;
}

#[tokio::test]
async fn a_damaged_entry_prolongs_no_admission() {
    no_promotion_is_believed_beyond_its_expiry(all_permits).await;
}
