//! Damaged queues: they break nothing, and no damaged entry is granted a lease.

use std::time::Duration;

use mongo_lease::Attempt;
use mongo_lease::mongodb::bson::{Bson, DateTime, Document, doc};
use mongo_lease_testbed::Server;

use super::{granted, in_line, line_of, manager, told_only, told_only_tuning};
use crate::common::{assert_done, document, migrated};
use crate::patience::{locks, until};

const WAITER_TTL: Duration = Duration::from_millis(600);

/// A correct entry of a live waiter.
fn entry() -> Document {
    let now = DateTime::now();
    let later = DateTime::from_millis(now.timestamp_millis() + 3_600_000);
    doc! {
        "value": "rubbish", "id": "rubbish.1", "sentMicros": 1_i64, "heartbeatAt": now,
        "expiresAt": later, "ttlMs": 30_000_i64, "maxClockSkewMs": 1_000_i64,
        "owner": "rubbish@host:1", "metadata": {},
    }
}

/// An entry with something else in one of its fields, or without that field.
fn entry_with(field: &str, value: impl Into<Option<Bson>>) -> Bson {
    let mut entry = entry();
    match value.into() {
        Some(value) => entry.insert(field, value),
        None => entry.remove(field),
    };
    entry.into()
}

/// The values that may stand in place of a queue.
fn damages() -> Vec<Bson> {
    let mut rubbish: Vec<Bson> = vec![
        1.into(),
        "x".into(),
        Bson::Null,
        doc! {}.into(),
        vec![Bson::from(1)].into(),
        vec![Bson::from(entry())].into(),
        "$queue".into(),
        doc! { "value": { "$literal": 1 }, "expiresAt": "$$NOW" }.into(),
        entry_with("ttlMs", Bson::Int64(i64::MAX)),
        entry_with("maxClockSkewMs", Bson::Int64(i64::MAX)),
    ];
    for field in
        ["value", "id", "sentMicros", "heartbeatAt", "expiresAt", "ttlMs", "maxClockSkewMs"]
    {
        rubbish.push(entry_with(field, None));
        for value in [Bson::Null, 1.into(), 1.5.into(), vec![entry()].into(), doc! {}.into()] {
            rubbish.push(entry_with(field, value));
        }
    }
    rubbish.push(entry_with("value", Bson::Int64(1)));
    rubbish.push(entry_with("expiresAt", Bson::from("2999-01-01")));
    rubbish.push(entry_with("sentMicros", Bson::from(DateTime::now())));
    let wholes =
        ["$queue".into(), 5.into(), true.into(), Bson::Null, entry().into(), doc! {}.into()];
    let lists = [Vec::new(), vec![Bson::Null], rubbish];
    wholes.into_iter().chain(lists.into_iter().map(Bson::from)).collect()
}

#[tokio::test]
async fn a_corrupt_queue_breaks_nothing_and_is_granted_nothing() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = manager(server, &database).await;
    let through = database.through(&server.client().await);
    let waiters = told_only(&through)
        .tuning(told_only_tuning().waiter_ttl(WAITER_TTL))
        .build()
        .await
        .unwrap();
    for (number, damage) in damages().into_iter().enumerate() {
        let name = format!("lease:{number}");
        let hurt = async || {
            let update = doc! { "$set": { "queue": damage.clone() } };
            locks(&database).update_one(doc! { "name": &name }, update).await.unwrap();
        };
        let lease = leases.acquire(&name).await.unwrap();
        hurt().await;
        lease.renew().await.unwrap();
        let Attempt::Busy(info) = waiters.try_acquire(&name).await.unwrap() else {
            panic!("{damage}");
        };
        assert_eq!(info.value.as_deref(), Some(lease.value()));
        leases.get(&name).await.unwrap().unwrap();
        assert_done(lease.release().await.unwrap(), &damage);
        assert!(leases.get(&name).await.unwrap().is_none(), "{damage}");

        // With a waiter, which stays in the queue when it is damaged once more.
        let lease = leases.acquire(&name).await.unwrap();
        hurt().await;
        let waiting = in_line(&waiters, waiters.acquire(&name)).await;
        let more = vec![1.into(), entry_with("sentMicros", None)];
        let push = doc! { "$push": { "queue": { "$each": more, "$position": 0 } } };
        locks(&database).update_one(doc! { "name": &name }, push).await.unwrap();
        assert_done(lease.release().await.unwrap(), &damage);
        let lease = granted(waiting).await;
        assert_eq!(line_of(&database, &name).await, Vec::<String>::new(), "{damage}");
        lease.release().await.unwrap();
        assert_eq!(document(&database, &name).await, None, "{damage}");
    }
}

/// Heartbeats reach a waiter among damaged entries; a waiter whose entry was overwritten joins again.
#[tokio::test]
async fn a_waiter_lives_on_in_a_damaged_queue() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = manager(server, &database).await;
    let through = database.through(&server.client().await);
    let waiters = told_only(&through)
        .tuning(told_only_tuning().waiter_ttl(WAITER_TTL))
        .build()
        .await
        .unwrap();
    let names: Vec<String> = (0..damages().len()).map(|number| format!("lease:{number}")).collect();
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in &names {
        held.push(leases.acquire(name).await.unwrap());
        waiting.push(in_line(&waiters, waiters.acquire(name)).await);
    }
    for (name, damage) in names.iter().zip(damages()) {
        let update = doc! { "$set": { "queue": damage } };
        locks(&database).update_one(doc! { "name": name }, update).await.unwrap();
    }
    for (name, lease) in names.iter().zip(held) {
        let ours = doc! { "name": name, "queue.owner": { "$regex": "^test@" } };
        let is_back = async || locks(&database).find_one(ours.clone()).await.unwrap();
        until("the waiter is in line again", is_back).await;
        assert_done(lease.release().await.unwrap(), name);
    }
    for (name, waiting) in names.iter().zip(waiting) {
        let lease = granted(waiting).await;
        let found = document(&database, name).await.unwrap();
        assert_eq!(found.get_str("value").ok(), Some(lease.value()));
        lease.release().await.unwrap();
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
