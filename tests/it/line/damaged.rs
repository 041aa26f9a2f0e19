//! Damaged queues: they break nothing, and no damaged entry is granted a lease.

use mongo_lease::mongodb::bson::{Bson, DateTime, Document, doc};

use crate::common::{assert_done, setup};
use crate::patience::locks;

/// An entry with these times, and all else correct.
fn entry(heartbeat_at: DateTime, expires_at: DateTime) -> Document {
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
pub(super) fn entry_with(field: &str, value: impl Into<Option<Bson>>) -> Bson {
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

/// Its holder has died, and no live waiter waits: the damaged queue blocks nobody.
#[tokio::test]
async fn a_free_lease_is_granted_past_a_damaged_queue() {
    let (database, leases) = setup().await;
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
