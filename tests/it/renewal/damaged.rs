//! Another program damages the numbers of a holder. Two holders are never valid at once, and nobody loses what it has.

use std::time::Duration;

use futures_util::future::{join_all, select, try_join_all};
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Acquire, Lease, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use super::many::until_all_renewed;
use crate::common::{builder, migrated};
use crate::patience::{Listener, bounded, expires_at, locks};
use crate::permits::{granted, queued_by};

const TTL: Duration = Duration::from_secs(4);

/// More than two ttls and the maximum clock skew.
const RENEWALS: usize = 7;

/// Between two readings of two clocks of one machine.
const SLACK: Duration = Duration::from_millis(50);

/// Other values of a number. `None` removes it.
fn damages() -> Vec<Option<Bson>> {
    let several =
        [0.into(), 1.into(), (-1).into(), (-30_000_i64).into(), Bson::Null, "30000".into()];
    let more = [f64::NAN.into(), 1.5.into(), 700.into(), i64::MAX.into(), vec![1, 2].into()];
    several.into_iter().chain(more).map(Some).chain([None]).collect()
}

/// Writes this value into a field of a lease's document; returns what was done.
async fn damage(database: &TestDatabase, name: &str, field: &str, value: Option<Bson>) -> String {
    let done = format!("{field}: {value:?}");
    let update = match value {
        Some(value) => doc! { "$set": { field: value } },
        None => doc! { "$unset": { field: "" } },
    };
    let changed = locks(database).update_one(doc! { "name": name }, update).await.unwrap();
    assert_eq!(changed.matched_count, 1, "{name}: {done}");
    done
}

/// Asserts that a holder does not believe in its lease beyond this time.
fn assert_valid_until(ends: DateTime, lease: &Lease, what: &str) {
    // By the server's clock, which is this machine's.
    let left = ends.timestamp_millis() - DateTime::now().timestamp_millis();
    let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
    let remaining = lease.remaining();
    assert!(remaining <= left + SLACK, "{what}: {remaining:?} of {left:?}");
}

async fn managers(database: &TestDatabase) -> (LeaseManager, LeaseManager) {
    let skew = Duration::from_millis(500);
    let build = || builder(database).ttl(TTL).max_clock_skew(skew).build();
    (build().await.unwrap(), build().await.unwrap())
}

/// Damages this number of as many leases as there are damages, and renews these while others want them. Nobody is
/// granted one that its holder believes in, and no holder loses it.
async fn nobody_else_believes(
    database: &TestDatabase,
    field: &str,
    acquire: impl Fn(&LeaseManager, String) -> Acquire,
) {
    let (leases, others) = managers(database).await;
    let names: Vec<_> = (0..damages().len()).map(|number| format!("{field}:{number}")).collect();
    let mut events = Listener::of(&leases);
    let calls = names.iter().map(|name| acquire(&leases, name.clone()).into_future());
    let held = bounded(try_join_all(calls)).await.unwrap();
    let mut done = Vec::new();
    for (name, value) in names.iter().zip(damages()) {
        done.push(damage(database, name, field, value).await);
    }
    let renewed = until_all_renewed(&mut events, &names, RENEWALS, |_| true);
    let granted = join_all(held.iter().zip(&done).map(async |(lease, done)| {
        let other = acquire(&others, lease.name().to_owned()).await.unwrap();
        assert!(!(lease.is_valid() && other.is_valid()), "two believe after {done}");
    }));
    bounded(select(Box::pin(renewed), Box::pin(granted))).await;
    for (lease, done) in held.into_iter().zip(done) {
        assert!(lease.is_valid(), "lost after {done}");
        lease.release().await.unwrap();
    }
}

/// Damages each number of the record at this path, all at the same time.
async fn no_damage_shortens(record: &str, acquire: impl Fn(&LeaseManager, String) -> Acquire) {
    let database = migrated(Server::shared()).await;
    let numbers = ["ttlMs", "maxClockSkewMs", "writes", "sentMicros"];
    join_all(numbers.map(async |number| {
        nobody_else_believes(&database, &format!("{record}.{number}"), &acquire).await;
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
    let (leases, others) = managers(&database).await;
    for field in ["grant.ttlMs", "grant.maxClockSkewMs"] {
        for (number, value) in damages().into_iter().enumerate() {
            let name = format!("{field}:{number}");
            let key = leases.acquire(&name).await.unwrap().detach().await.unwrap();
            let done = damage(&database, &name, field, value).await;
            let before = expires_at(&database, &name).await;
            let lease = others.resume(key).await.unwrap_or_else(|it| panic!("{done}: {it}"));
            let prolonged = expires_at(&database, &name).await;
            let told = lease.expires_at().timestamp_millis();
            assert_eq!(told, prolonged.timestamp_millis(), "{done}");
            assert!(prolonged >= before, "{done}");
            assert_valid_until(prolonged, &lease, &done);
            lease.release().await.unwrap();
        }
    }
}

/// Another program damages the numbers of a waiter's queue entry. The waiter believes no longer than the server.
async fn no_promotion_is_believed_beyond_its_expiry(
    acquire: impl Fn(&LeaseManager, String) -> Acquire,
) {
    let database = migrated(Server::shared()).await;
    for field in ["queue.0.ttlMs", "queue.0.maxClockSkewMs"] {
        for value in [0_i64, 1, -1, -30_000, i64::MIN, 700] {
            let (leases, others) = managers(&database).await;
            let name = format!("{field}:{value}");
            let held = acquire(&leases, name.clone()).await.unwrap();
            let waiting = queued_by(&others, |others| acquire(others, name.clone())).await;
            let done = damage(&database, &name, field, Some(value.into())).await;
            held.release().await.unwrap();
            let lease = granted(waiting).await;
            let ends = DateTime::from_millis(lease.expires_at().timestamp_millis());
            assert_valid_until(ends, &lease, &done);
            lease.release().await.unwrap();
        }
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
