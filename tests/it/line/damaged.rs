//! Damaged queues: they break nothing, and no damaged entry is granted a lease.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, DateTime, Document, doc};
use mongo_lease_testbed::Server;

use super::{granted, in_line, line_of, manager, manager_with};
use crate::common::{assert_done, document, migrated};
use crate::patience::{locks, until};

/// An entry with these times, and all else correct.
pub(super) fn entry(heartbeat_at: DateTime, expires_at: DateTime) -> Document {
    doc! {
        "value": "rubbish", "id": "rubbish.1", "sentMicros": 1_i64, "heartbeatAt": heartbeat_at,
        "expiresAt": expires_at, "ttlMs": 30_000_i64, "maxClockSkewMs": 1_000_i64,
        "owner": "rubbish@host:1", "metadata": {},
    }
}

/// A correct entry of a live waiter.
fn live_entry() -> Document {
    let now = DateTime::now();
    entry(now, DateTime::from_millis(now.timestamp_millis() + 3_600_000))
}

/// An entry with something else in one of its fields, or without that field.
fn entry_with(field: &str, value: impl Into<Option<Bson>>) -> Bson {
    let mut entry = live_entry();
    match value.into() {
        Some(value) => entry.insert(field, value),
        None => entry.remove(field),
    };
    entry.into()
}

/// The values that may stand in place of a queue.
fn damages() -> Vec<Bson> {
    let mut damages: Vec<Bson> =
        vec!["$queue".into(), 5.into(), true.into(), Bson::Null, doc! {}.into()];
    let mut entries = damages.clone();
    entries.extend([
        vec![Bson::from(live_entry())].into(),
        doc! { "value": { "$literal": 1 }, "expiresAt": "$$NOW" }.into(),
        entry_with("ttlMs", Bson::Int64(i64::MAX)),
        entry_with("maxClockSkewMs", Bson::Int64(i64::MAX)),
        entry_with("expiresAt", Bson::from("2999-01-01")),
        entry_with("sentMicros", Bson::from(DateTime::now())),
    ]);
    for field in
        ["value", "id", "sentMicros", "heartbeatAt", "expiresAt", "ttlMs", "maxClockSkewMs"]
    {
        entries.push(entry_with(field, None));
        for value in [Bson::Null, 1.into(), 1.5.into(), vec![live_entry()].into(), doc! {}.into()] {
            entries.push(entry_with(field, value));
        }
    }
    let lists = [Vec::new(), vec![Bson::Null], entries].map(Bson::from);
    damages.push(live_entry().into());
    damages.extend(lists);
    damages
}

/// A waiter whose entry was overwritten joins again, and no damaged entry is granted the lease in its place.
#[tokio::test]
async fn a_waiter_lives_on_in_a_damaged_queue() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = manager(server, &database).await;
    let waiters = manager_with(server, &database, Duration::from_millis(600)).await;
    let mut all = Vec::new();
    for (number, damage) in damages().into_iter().enumerate() {
        let name = format!("lease:{number}");
        let lease = leases.acquire(&name).await.unwrap();
        let waiting = in_line(&waiters, waiters.acquire(&name)).await;
        let update = doc! { "$set": { "queue": &damage } };
        locks(&database).update_one(doc! { "name": &name }, update).await.unwrap();
        all.push((name, damage, lease, waiting));
    }
    for (name, damage, lease, waiting) in all {
        let ours = doc! { "name": &name, "queue.owner": { "$regex": "^test@" } };
        let is_back = async || locks(&database).find_one(ours.clone()).await.unwrap();
        until(&format!("the waiter is in line again: {damage}"), is_back).await;
        // Once more, in front of it.
        let more = vec![1.into(), entry_with("sentMicros", None)];
        let push = doc! { "$push": { "queue": { "$each": more, "$position": 0 } } };
        locks(&database).update_one(doc! { "name": &name }, push).await.unwrap();
        lease.renew().await.unwrap();
        let shown = waiters.get(&name).await.unwrap().and_then(|info| info.value);
        assert_eq!(shown.as_deref(), Some(lease.value()), "{damage}");
        assert_done(lease.release().await.unwrap(), &damage);
        let lease = granted(waiting).await;
        assert_eq!(line_of(&database, &name).await, Vec::<String>::new(), "{damage}");
        let found = document(&database, &name).await.unwrap();
        assert_eq!(found.get_str("value").ok(), Some(lease.value()), "{damage}");
        lease.release().await.unwrap();
        assert_eq!(document(&database, &name).await, None, "{damage}");
    }
}

/// Its holder has died, and no live waiter waits: the damaged queue blocks nobody.
#[tokio::test]
async fn a_free_lease_is_granted_past_a_damaged_queue() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = manager(server, &database).await;
    let past = DateTime::from_millis(DateTime::now().timestamp_millis() - 60_000);
    for (number, damage) in damages().into_iter().enumerate() {
        for expires_at in [Bson::from(past), Bson::Null] {
            let name = format!("lease:{number}:{expires_at}");
            let free = doc! {
                "name": &name, "value": "gone", "expiresAt": expires_at, "queue": damage.clone(),
            };
            locks(&database).insert_one(free).await.unwrap();
            let attempt = leases.try_acquire(&name).await.unwrap();
            let lease = attempt.granted().unwrap_or_else(|| panic!("{damage} is in the way"));
            assert_done(lease.release().await.unwrap(), &damage);
        }
    }
}
