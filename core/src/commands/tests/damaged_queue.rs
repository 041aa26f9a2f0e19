//! Corrupt queues on a real server: no command of ours fails on one, and a call that joins is behind valid live entries
//! only.

use std::fmt::Debug;
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::tombstone::is_tombstone;
use crate::spec::EndScope;
use futures_util::stream::{self, StreamExt};
use mongodb::{Collection, Database};

use super::{JOINS, SENT, database, entries, fresh_values, request, slow, target, with};
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest};
use crate::commands::find::FindLeases;
use crate::commands::heartbeat::{FindEntries, Heartbeat};
use crate::commands::release::{Delete, End, EndLater, GrantMatch, ReleaseTarget};

const LIFE: Duration = Duration::from_secs(10);
const HOUR: i64 = 3_600_000;
const SIDE_BY_SIDE: usize = 16;

fn entry() -> Document {
    let now = DateTime::now().timestamp_millis();
    doc! {
        "value": "waiting",
        "id": "m-waiting.1",
        "sentMicros": 7_i64,
        "heartbeatAt": DateTime::from_millis(now),
        "expiresAt": DateTime::from_millis(now + HOUR),
        "ttlMs": 30_000_i64,
        "maxClockSkewMs": 1_000_i64,
        "permits": 1_i64,
        "limit": 1_i64,
        "owner": "owner",
        "metadata": {},
    }
}

/// Values that `queue` may have.
fn queues() -> Vec<Bson> {
    let mut odd: Vec<Bson> = vec![
        Bson::Null,
        7.into(),
        "x".into(),
        doc! { "value": "waiting" }.into(),
        entry().into(),
        vec![Bson::Null].into(),
        vec![Bson::from(7), "x".into(), doc! {}.into(), vec![Bson::from(entry())].into()].into(),
    ];
    let values: [Bson; 10] = [
        Bson::Null,
        Bson::Int32(7),
        Bson::Int64(i64::MAX),
        Bson::Int64(i64::MIN),
        Bson::Double(f64::NAN),
        "$value".into(),
        DateTime::MAX.into(),
        DateTime::MIN.into(),
        vec![Bson::from("waiting")].into(),
        doc! { "$literal": 1 }.into(),
    ];
    for field in entry().keys() {
        let mut without = entry();
        without.remove(field);
        odd.push(vec![Bson::from(without)].into());
        let damaged = |value: &Bson| Bson::from(vec![with(entry(), field, value.clone())]);
        odd.extend(values.iter().map(damaged));
    }
    odd
}

struct Lease {
    database: Database,
    name: String,
}

impl Lease {
    fn locks(&self) -> Collection<Document> {
        self.database.collection("locks")
    }

    /// Puts this queue into the document, and runs a command.
    async fn run<C: Command + Debug>(&self, command: &C, queue: &Bson) -> C::Reply {
        let until = DateTime::from_millis(DateTime::now().timestamp_millis() + HOUR);
        let document = doc! {
            "name": &self.name,
            "value": "v",
            "expiresAt": until,
            "grant": { "value": "v", "id": "m-v.1", "acquiredAt": DateTime::now() },
            "queue": queue.clone(),
        };
        let by_name = doc! { "name": &self.name };
        self.locks().replace_one(by_name, document).upsert(true).await.unwrap();
        let reply = self.database.run_command(command.build("locks", SENT)).await;
        let reply = reply.unwrap_or_else(|error| panic!("{error}: {command:?} with {queue}"));
        let decoded = command.decode(&reply, SENT);
        decoded.unwrap_or_else(|error| panic!("{error:?}: {command:?} with {queue}"))
    }

    async fn document(&self) -> Document {
        self.locks().find_one(doc! { "name": &self.name }).await.unwrap().unwrap()
    }

    /// The grant of its holder.
    fn target(&self) -> ReleaseTarget {
        let (name, value) = (self.name.clone(), "v".to_owned());
        ReleaseTarget { name, value, ..target(GrantMatch::Any) }
    }

    fn end(&self, scope: EndScope) -> End {
        End { targets: vec![self.target()], scope, values: fresh_values() }
    }

    async fn join(&self, queue: &Bson) {
        let (name, value) = (self.name.clone(), "me".to_owned());
        let acquire = slow(AcquireRequest { name, value, joins: Some(JOINS), ..request() });
        let AcquireReply::Refused(refused) = self.run(&acquire, queue).await else {
            panic!("granted: {queue}");
        };
        let after = self.document().await;
        let line = after.get_array("queue").unwrap();
        assert!(line.iter().all(|entry| entry.as_document().is_some()), "{after}");
        let length = u32::try_from(line.len()).unwrap();
        assert_eq!(refused.ahead, Some(length - 1), "{after}");
        assert_eq!(refused.info.waiting, length, "{after}");
    }

    async fn beat(&self, queue: &Bson) {
        let entries = entries(&[(self.name.as_str(), "waiting")]);
        let beat = Heartbeat { entries: entries.clone(), waiter_ttl: LIFE };
        assert!(self.run(&beat, queue).await.matched <= 1);
        assert!(self.run(&FindEntries { entries }, queue).await.len() <= 1);
    }

    /// Each kind of release ends it: the document is deleted, a waiter is admitted, or it has no holder.
    async fn release(&self, queue: &Bson) {
        let delete = Delete { targets: vec![self.target()] };
        let is_deleted = self.run(&delete, queue).await.count == 1;
        // The queue may have an entry that is not live.
        let is_empty = queue.as_array().is_none_or(Vec::is_empty);
        assert_eq!(is_deleted, is_empty, "{queue}");
        let beside = self.run(&self.end(EndScope::BesideOthers), queue).await;
        assert_eq!(beside.count == 0, is_deleted, "{queue}");
        for scope in [EndScope::Anywhere, EndScope::HeldOrQueued] {
            assert_eq!(self.run(&self.end(scope), queue).await.count, 1, "{queue}");
            let after = self.document().await;
            let value = after.get_str("value").unwrap();
            assert_ne!(value, "v", "{after}");
            // Other texts are values too, and a waiter with one of them is admitted.
            assert_eq!(is_tombstone(value), !after.contains_key("promoted"), "{after}");
            assert!(!after.contains_key("queue") || queue.as_array().is_none(), "{after}");
            assert!(after.get_datetime("expiresAt").is_ok(), "{after}");
        }
        let (target, values) = (self.target(), fresh_values());
        let later = EndLater { target, hold_at_least: LIFE, values };
        assert!(self.run(&later, queue).await, "{queue}");
    }

    async fn look(&self, queue: &Bson) {
        let look = FindLeases { names: vec![self.name.clone()], after: None };
        let seen = self.run(&look, queue).await;
        let length = queue.as_array().map_or(0, Vec::len);
        assert_eq!(seen[0].info.waiting, u32::try_from(length).unwrap(), "{queue}");
    }
}

#[tokio::test]
async fn no_command_fails_on_a_damaged_queue() {
    let database = database().await;
    let leases = queues().into_iter().enumerate().map(|(number, queue)| {
        let lease = Lease { database: (*database).clone(), name: format!("${number}") };
        async move {
            lease.join(&queue).await;
            lease.beat(&queue).await;
            lease.release(&queue).await;
            lease.look(&queue).await;
        }
    });
    let done = stream::iter(leases).buffer_unordered(SIDE_BY_SIDE).count().await;
    assert!(done > 80, "{done}");
    database.drop_database().await.unwrap();
}
