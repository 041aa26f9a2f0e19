//! Corrupt queues on a real server: no command of ours fails on one, and a call that joins is behind valid live entries
//! only.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::tombstone::is_tombstone;
use crate::spec::EndScope;
use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::Server;
use mongodb::Database;

use super::{SENT, request};
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest, QueueOptions, SlowAcquire};
use crate::commands::find::FindLeases;
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use crate::commands::release::{Delete, End, EndLater, Form, GrantMatch, ReleaseTarget};
use crate::commands::tests::fresh_values;

const COLLECTION: &str = "locks";
const LIFE: Duration = Duration::from_secs(10);
const HOUR: i64 = 3_600_000;
/// How many leases are tested at once.
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
        odd.extend(values.iter().map(|value| {
            let mut with = entry();
            with.insert(field, value.clone());
            vec![Bson::from(with)].into()
        }));
    }
    odd
}

/// One lease in a database.
struct Lease {
    database: Database,
    name: String,
}

impl Lease {
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
        let locks = self.database.collection::<Document>(COLLECTION);
        let by_name = doc! { "name": &self.name };
        locks.replace_one(by_name, document).upsert(true).await.unwrap();
        let reply = self.database.run_command(command.build("locks", SENT)).await;
        let reply = reply.unwrap_or_else(|error| panic!("{error}: {command:?} with {queue}"));
        let decoded = command.decode(&reply, SENT);
        decoded.unwrap_or_else(|error| panic!("{error:?}: {command:?} with {queue}"))
    }

    async fn document(&self) -> Option<Document> {
        let locks = self.database.collection::<Document>(COLLECTION);
        locks.find_one(doc! { "name": &self.name }).await.unwrap()
    }

    fn target(&self, value: &str) -> ReleaseTarget {
        let (name, value) = (self.name.clone(), value.to_owned());
        ReleaseTarget { name, value, grant: GrantMatch::Any, form: Form::Plain }
    }

    fn end(&self, value: &str, scope: EndScope) -> End {
        End { targets: vec![self.target(value)], scope, values: fresh_values() }
    }

    async fn join(&self, queue: &Bson) {
        let joins = Some(QueueOptions { waiter_ttl: 10_000, max_waiting: 7 });
        let request =
            AcquireRequest { name: self.name.clone(), value: "me".to_owned(), joins, ..request() };
        let acquire = SlowAcquire { request: Arc::new(request), attempt_no: 1, predecessor: None };
        let AcquireReply::Refused(refused) = self.run(&acquire, queue).await else {
            panic!("granted: {queue}");
        };
        let after = self.document().await.unwrap();
        let line = after.get_array("queue").unwrap();
        assert!(line.iter().all(|entry| entry.as_document().is_some()), "{after}");
        let length = u32::try_from(line.len()).unwrap();
        assert_eq!(refused.ahead, Some(length - 1), "{after}");
        assert_eq!(refused.info.waiting, length, "{after}");
    }

    async fn beat(&self, queue: &Bson) {
        let places = || vec![QueueEntry { name: self.name.clone(), value: "waiting".to_owned() }];
        let beat = Heartbeat { entries: places(), waiter_ttl: LIFE };
        assert!(self.run(&beat, queue).await.matched <= 1);
        let in_line = FindEntries { entries: places() };
        assert!(self.run(&in_line, queue).await.len() <= 1);
    }

    /// Each kind of release ends it: the document is deleted, a waiter is admitted, or it has no holder.
    async fn release(&self, queue: &Bson) {
        let delete = Delete { targets: vec![self.target("v")] };
        let is_deleted = self.run(&delete, queue).await.count == 1;
        // The queue may have an entry that is not live.
        let is_empty = queue.as_array().is_none_or(Vec::is_empty);
        assert_eq!(is_deleted, is_empty, "{queue}");
        let beside = self.run(&self.end("v", EndScope::BesideOthers), queue).await;
        assert_eq!(beside.count == 0, is_deleted, "{queue}");
        for scope in [EndScope::Anywhere, EndScope::HeldOrQueued] {
            assert_eq!(self.run(&self.end("v", scope), queue).await.count, 1, "{queue}");
            let after = self.document().await.unwrap();
            let value = after.get_str("value").unwrap();
            assert_ne!(value, "v", "{after}");
            // Other texts are values too, and a waiter with one of them is admitted.
            assert_eq!(is_tombstone(value), !after.contains_key("promoted"), "{after}");
            assert!(!after.contains_key("queue") || queue.as_array().is_none(), "{after}");
            assert!(after.get_datetime("expiresAt").is_ok(), "{after}");
        }
        let (target, values) = (self.target("v"), fresh_values());
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
    let database = Server::shared().database().await;
    let index = doc! { "key": { "name": 1 }, "name": "name_1", "unique": true };
    let create = doc! { "createIndexes": COLLECTION, "indexes": [index] };
    database.run_command(create).await.unwrap();
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
