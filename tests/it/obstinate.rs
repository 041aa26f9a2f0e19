//! Collections with more constraints than ours: a unique index on `value`, or a validator.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Error, LeaseInfo, LeaseManager, LeaseManagerBuilder, LostReason, Released};
use mongo_lease_testbed::TestDatabase;

use crate::common::{TryOnce, assert_done, builder, document, granted, refused, setup};
use crate::lent::{LentServer, lent_database};
use crate::patience::{bounded, locks};
use crate::waiters::{all_granted, in_line};

/// Longer than any test takes, and shorter than the retries of a release.
const AT_ONCE: Duration = Duration::from_secs(30);
const HOLD: Duration = Duration::from_secs(600);

/// A collection with this constraint.
async fn obstinate(constraint: Document) -> (LentServer, TestDatabase) {
    let (server, database) = lent_database().await;
    database.run_command(constraint).await.unwrap();
    (server, database)
}

async fn with_unique_value() -> (LentServer, TestDatabase) {
    let index = doc! { "key": { "value": 1 }, "name": "value_1", "unique": true };
    obstinate(doc! { "createIndexes": "locks", "indexes": [index] }).await
}

async fn with_validator(value: Document) -> (LentServer, TestDatabase) {
    let schema = doc! { "properties": { "value": value } };
    obstinate(doc! { "collMod": "locks", "validator": { "$jsonSchema": schema } }).await
}

/// A validator that refuses every tombstone.
async fn without_tombstones() -> (LentServer, TestDatabase) {
    with_validator(doc! { "not": { "pattern": "^released:" } }).await
}

fn builders(database: &TestDatabase) -> [LeaseManagerBuilder; 2] {
    [false, true]
        .map(|tombstones| builder(database).tombstones(tombstones).release_timeout(4 * AT_ONCE))
}

/// Acquires and releases two names, and two that are held at least for a time; each of them twice where possible.
async fn come_and_go(leases: &LeaseManager, prefix: &str) {
    for _ in 0..2 {
        for name in ["a", "b"] {
            let lease = leases.acquire(format!("{prefix}:{name}")).await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
    }
    for name in ["kept:a", "kept:b"] {
        let name = format!("{prefix}:{name}");
        let lease = leases.acquire(&name).hold_at_least(HOLD).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        let value = refused(leases, &name).await.value.unwrap();
        assert!(LeaseInfo::is_tombstone_value(&value), "{value}");
        // An operator frees it, with that very value.
        assert_done(leases.release(&name, value).await.unwrap(), "by name and value");
        let lease = granted(leases, &name).await;
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
}

/// Leases come and go at once, with tombstones and without.
async fn assert_unhindered(database: &TestDatabase) {
    for (prefix, builder) in ["off", "on"].into_iter().zip(builders(database)) {
        let leases = builder.build().await.unwrap();
        let started = Instant::now();
        come_and_go(&leases, prefix).await;
        assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_unique_index_on_value_hinders_no_release() {
    let (_server, database) = with_unique_value().await;
    assert_unhindered(&database).await;
}

#[tokio::test]
async fn a_validator_against_empty_values_hinders_no_release() {
    let (_server, database) = with_validator(doc! { "bsonType": "string", "minLength": 1 }).await;
    assert_unhindered(&database).await;
}

/// Two dead waiters are in the queue, so the hand-off finds nobody: the document outlives its holder.
#[tokio::test]
async fn a_unique_index_on_value_hinders_no_hand_off_to_nobody() {
    let (_server, database) = with_unique_value().await;
    let leases = builder(&database).build().await.unwrap();
    for name in ["a", "b"] {
        let lease = leases.acquire(name).await.unwrap();
        let dead = doc! { "$set": { "queue": [{ "value": name, "id": "x.1" }] } };
        locks(&database).update_one(doc! { "name": name }, dead).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        let left = document(&database, name).await.unwrap();
        assert!(LeaseInfo::is_tombstone_value(left.get_str("value").unwrap()), "{left}");
    }
    // Only now: both documents existed at once.
    for name in ["a", "b"] {
        assert!(leases.try_acquire(name).await.unwrap().is_granted(), "{name}");
    }
}

/// All documents in shared use have one value, so such an index allows one of them.
#[tokio::test]
async fn a_unique_index_on_value_allows_one_lease_in_shared_use() {
    let (_server, database) = with_unique_value().await;
    let leases = builder(&database).build().await.unwrap();
    let held = leases.acquire("a").shared().await.unwrap();
    let wait = Duration::from_secs(2);
    let other = || leases.acquire("b").shared().ttl(wait);
    let assert_duplicate = |error: &Error| {
        // `Unknown` where the time was over in the middle of an attempt.
        assert!(matches!(error, Error::MongoDb(_) | Error::Unknown { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("E11000 duplicate key") && text.contains("value_1"), "{text}");
    };
    assert_duplicate(&other().try_once().await.expect_err("it is refused"));
    match other().wait(wait).await.expect_err("it is refused") {
        Error::WaitTimeout { held: None, source: Some(source), .. } => assert_duplicate(&source),
        error => panic!("{error:?}"),
    }
    assert_eq!(held.release().await.unwrap(), Released::Released);
    assert!(other().await.unwrap().is_shared());
}

#[tokio::test]
async fn a_refused_tombstone_is_deleted_at_once_and_company_too() {
    const NAMES: usize = 40;
    let (_server, database) = without_tombstones().await;
    let leases = builder(&database).tombstones(true).build().await.unwrap();
    let started = Instant::now();
    let lease = leases.acquire("alone").await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert_eq!(document(&database, "alone").await, None);
    for _ in 0..2 {
        let pairs = (0..NAMES).map(async |number| {
            let lease = leases.acquire(number.to_string()).await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Released, "{number}");
        });
        bounded(join_all(pairs)).await;
    }
    let held = (0..NAMES).map(|number| leases.acquire(format!("held:{number}")).into_future());
    let _held = try_join_all(held).await.unwrap();
    assert_eq!(leases.shutdown().await.released, NAMES);
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// There is no other way: the name must stay taken, and the validator forbids the document that would say so.
#[tokio::test]
async fn a_refused_hold_at_least_is_an_error_at_once() {
    let (_server, database) = without_tombstones().await;
    for builder in builders(&database) {
        let leases = builder.build().await.unwrap();
        let lease = leases.acquire("a").hold_at_least(HOLD).await.unwrap();
        let value = lease.value().to_owned();
        let started = Instant::now();
        let error = lease.release().await.expect_err("it is refused");
        assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
        assert!(matches!(error, Error::MongoDb(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("failed validation") && text.contains("(code 121)"), "{text}");
        let found = document(&database, "a").await.unwrap();
        assert_eq!(found.get_str("value").ok(), Some(&*value), "it is as it was");
        assert_done(leases.release("a", value).await.unwrap(), "by name and value");
    }
}

/// A waiter's own value is refused when the lease is handed off to it: then that one release fails.
#[tokio::test]
async fn a_refused_hand_off_hinders_no_other_of_its_command() {
    const NAMES: usize = 40;
    let (_server, database) = with_validator(doc! { "not": { "pattern": "^refused" } }).await;
    let leases = builder(&database).build().await.unwrap();
    let other = builder(&database).build().await.unwrap();
    let names: Vec<String> = (0..NAMES).map(|number| format!("{number:02}")).collect();
    let held = names.iter().map(|name| leases.acquire(name).into_future());
    let _held = try_join_all(held).await.unwrap();
    let mut waiting = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let value = format!("{}{name}", ["refused", "fits"][number % 2]);
        waiting.push(in_line(&other, other.acquire(name).value(value).wait_forever()).await);
    }
    let report = leases.shutdown().await;
    let mut left = report.left_to_expire;
    left.sort_unstable();
    assert_eq!(left, names.iter().step_by(2).cloned().collect::<Vec<_>>());
    assert_eq!(report.released, NAMES / 2);
    let fits = waiting.into_iter().skip(1).step_by(2);
    assert_eq!(all_granted(fits).await.len(), NAMES / 2);
}

#[tokio::test]
async fn a_loss_to_a_tombstone_reads_removed_also_where_it_is_kept() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let kept = doc! { "value": "released:by another", "grant.value": "released:by another" };
    locks(&database).update_one(doc! { "name": "a" }, doc! { "$set": kept }).await.unwrap();
    let error = lease.renew().await.expect_err("it is over");
    assert!(matches!(error, Error::Lost { reason: LostReason::Removed, .. }), "{error}");
}
