//! No form of a release writes to a damaged document. Each says that the document is damaged.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::{Acquire, Error, LeaseManager, Released, Result};
use mongo_lease_testbed::{FailCommand, TestDatabase};

use crate::common::{assert_done, builder, document, known_release, setup};
use crate::lent::lent_setup;
use crate::patience::{locks, until};

/// Another program writes a text into the lease's expiry. Returns the document after that.
pub(crate) async fn damage(database: &TestDatabase, name: &str) -> Document {
    let update = doc! { "$set": { "expiresAt": "tomorrow" } };
    locks(database).update_one(doc! { "name": name }, update).await.unwrap();
    document(database, name).await.unwrap()
}

/// The release says that the document is damaged, and leaves it as it is.
async fn is_refused(
    database: &TestDatabase,
    damaged: &Document,
    released: Result<Released>,
    what: &str,
) {
    let error = released.expect_err(what);
    let Error::Damaged { name, field, found, .. } = &error else { panic!("{what}: {error}") };
    let wanted = damaged.get_str("name").unwrap();
    assert_eq!((name.as_str(), *field, found.as_str()), (wanted, "expiresAt", "string"), "{what}");
    assert_eq!(document(database, name).await.as_ref(), Some(damaged), "{what}: it was touched");
}

type Kind = fn(&LeaseManager, &str) -> Acquire;

#[tokio::test]
async fn no_handle_releases_a_damaged_lease() {
    let (database, plain) = setup().await;
    let tombstones = builder(&database).tombstones(true).build().await.unwrap();
    let kinds: [(&str, Kind); 4] = [
        ("exclusive", |leases, name| leases.acquire(name)),
        ("one of two permits", |leases, name| leases.semaphore(name, 2).acquire()),
        ("both permits", |leases, name| leases.semaphore(name, 2).acquire().permits(2)),
        ("held for a while", |leases, name| {
            leases.acquire(name).hold_at_least(Duration::from_secs(30))
        }),
    ];
    for (kind, acquire) in kinds {
        for (leases, how) in [(&plain, "deleted"), (&tombstones, "made a tombstone")] {
            let name = format!("{kind}, {how}");
            let mut held = vec![acquire(leases, &name).await.unwrap()];
            if kind == "one of two permits" {
                held.push(acquire(leases, &name).await.unwrap());
            }
            let damaged = damage(&database, &name).await;
            for lease in held {
                is_refused(&database, &damaged, lease.release().await, &name).await;
            }
        }
    }
}

/// A release that was cut off, and then finds nothing to end, has ended a valid lease, or the document is damaged.
#[tokio::test]
async fn a_release_that_was_cut_off_ends_no_damaged_lease() {
    let (server, database, leases) = lent_setup().await;
    for (command, kept) in [("delete", None), ("update", Some(Duration::from_secs(60)))] {
        let acquire = leases.acquire(command).renew(false);
        let acquire = kept.into_iter().fold(acquire, Acquire::hold_at_least);
        let lease = acquire.await.unwrap();
        let damaged = damage(&database, command).await;
        let cut_off = FailCommand::on(&[command]).times(1).error_code(50);
        let cut_off = cut_off.enable(server.uri()).await;
        is_refused(&database, &damaged, lease.release().await, command).await;
        assert_eq!(cut_off.disable().await, 1, "{command}");
    }
}

#[tokio::test]
async fn no_release_by_name_ends_a_damaged_lease() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let (value, key) = (lease.value().to_owned(), lease.detach().await.unwrap());
    let damaged = damage(&database, "a").await;
    is_refused(&database, &damaged, leases.release("a", &value).await, "release").await;
    let detached = leases.release_detached(&key).await;
    is_refused(&database, &damaged, detached, "release_detached").await;
    // Another's value is not held, damaged or not.
    assert_eq!(known_release(&leases, "a", "another").await, Released::NotHeld);
    let share = leases.semaphore("shared", 3).acquire().await.unwrap();
    let damaged = damage(&database, "shared").await;
    let forced = leases.release("shared", share.value()).await;
    is_refused(&database, &damaged, forced, "release of a permit").await;
    // The control: the same calls when the documents are sound again.
    let repair = doc! { "$set": { "expiresAt": DateTime::MAX } };
    locks(&database).update_many(doc! {}, repair).await.unwrap();
    assert_done(leases.release_detached(&key).await.unwrap(), "a detached lease");
    assert_done(leases.release("shared", share.value()).await.unwrap(), "a share");
}

/// A shutdown and a drop have nobody to tell. The report names the lease.
#[tokio::test]
async fn a_shutdown_leaves_damaged_leases_and_names_them() {
    let (database, leases) = setup().await;
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(leases.acquire(format!("lease:{number}")).await.unwrap());
    }
    let dropped = leases.acquire("dropped").await.unwrap();
    let of_dropped = damage(&database, "dropped").await;
    drop(dropped);
    let damaged = damage(&database, "lease:7").await;
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.left_to_expire.as_slice()), (19, &["lease:7".into()][..]));
    assert_eq!(document(&database, "lease:7").await, Some(damaged));
    assert_eq!(document(&database, "dropped").await, Some(of_dropped));
    let others = async || {
        let count = locks(&database).count_documents(doc! {}).await.unwrap();
        (count == 2).then_some(())
    };
    until("the other documents are gone", others).await;
}
