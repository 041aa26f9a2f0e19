//! The oplog, read while it is written, because it is short.
//!
//! It is read at any member that answers, and only what a majority has: that is never rolled back, and is the same
//! everywhere.

mod diff;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Bson, Document, Timestamp, doc, oid::ObjectId};
use mongo_lease::mongodb::options::ReadConcern;
use mongo_lease_checker::changes::{Change, State};
use mongo_lease_checker::history::What;

use crate::cluster::{COLLECTION, Cluster, Failed, LEDGER, MEMBERS};

/// The field of our own notes in the oplog.
const NOTE: &str = "torture";

/// A command that writes a line into the oplog, so that there is an entry also when nobody writes.
pub(crate) fn note() -> Document {
    doc! { "appendOplogNote": 1, "data": { NOTE: "is here" } }
}

fn namespace(collection: &str) -> String {
    format!("{}.{collection}", Cluster::database_name())
}

fn token(time: Timestamp) -> u64 {
    u64::from(time.time) << 32 | u64::from(time.increment)
}

/// How long one query may take, at a member that may be stopped.
const PATIENCE: Duration = Duration::from_secs(3);

/// The entries so far, shared with the readers of a run that goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) changes: Vec<Change>,
    /// The transactions under leases, with the servers' clock in milliseconds.
    pub(crate) commits: Vec<(i64, What)>,
    /// The log is complete up to here, by the servers' clock in milliseconds.
    pub(crate) until: i64,
}

/// Reads the oplog, and keeps the documents as they are after each entry.
pub(crate) struct Reader {
    cluster: Arc<Cluster>,
    newest: Timestamp,
    documents: HashMap<ObjectId, Document>,
    pub(crate) log: Arc<Mutex<Log>>,
    asks: usize,
}

impl Reader {
    /// Starts reading from now. The collection is empty.
    pub(crate) async fn start(cluster: Arc<Cluster>) -> Result<Reader, Failed> {
        let primary = cluster.wait_for_primary().await?;
        let reply = cluster.admin(primary, note(), PATIENCE).await?;
        let newest = reply.get_timestamp("operationTime");
        let newest = newest.map_err(|error| Failed::at("the oplog's beginning", error))?;
        Ok(Reader {
            cluster,
            newest,
            documents: HashMap::new(),
            log: Arc::default(),
            asks: primary,
        })
    }

    /// Reads new entries, at the next member that answers. Says whether there were any.
    pub(crate) async fn read(&mut self) -> Result<bool, Failed> {
        let mut found = Vec::new();
        for _ in 0..MEMBERS {
            let look = tokio::time::timeout(PATIENCE, self.look(self.asks)).await;
            if let Ok(Ok(entries)) = look {
                found = entries?;
                break;
            }
            self.asks = (self.asks + 1) % MEMBERS;
        }
        let is_new = !found.is_empty();
        for entry in found {
            self.take(&entry)?;
        }
        Ok(is_new)
    }

    /// Reads at another member next time: this one may be cut off and know nothing new.
    pub(crate) fn ask_another(&mut self) {
        self.asks = (self.asks + 1) % MEMBERS;
    }

    /// The new entries at one member. Outer error: it did not answer. Inner: it has lost unread entries.
    async fn look(
        &self,
        member: usize,
    ) -> mongo_lease::mongodb::error::Result<Result<Vec<Document>, Failed>> {
        let oplog: Collection<Document> =
            self.cluster.direct(member).database("local").collection("oplog.rs");
        let [namespace, ledger] = [COLLECTION, LEDGER].map(namespace);
        let filter = doc! {
            "ts": { "$gt": self.newest },
            "$or": [
                { "ns": &namespace },
                { "o.applyOps.ns": { "$in": [&namespace, ledger] } },
                { "op": "n", (format!("o.{NOTE}")): { "$exists": true } },
            ],
        };
        let majority = ReadConcern::majority();
        let entries: Vec<Document> =
            oplog.find(filter).read_concern(majority).await?.try_collect().await?;
        let oldest = oplog.find_one(doc! {}).sort(doc! { "$natural": 1 }).await?;
        let oldest = oldest.and_then(|entry| entry.get_timestamp("ts").ok());
        if oldest.is_none_or(|oldest| oldest > self.newest) {
            return Ok(Err(Failed::new("the oplog was overwritten before it was read")));
        }
        Ok(Ok(entries))
    }

    fn take(&mut self, entry: &Document) -> Result<(), Failed> {
        let failed = |error| Failed::at("an oplog entry", error);
        let time = entry.get_timestamp("ts").map_err(failed)?;
        let wall = entry.get_datetime("wall").map_err(failed)?.timestamp_millis();
        self.newest = time;
        self.log().until = wall;
        let operation = entry.get_document("o").map_err(failed)?;
        match operation.get_array("applyOps") {
            Ok(operations) => {
                for operation in operations.iter().filter_map(Bson::as_document) {
                    match operation.get_str("ns") {
                        Ok(at) if at == namespace(LEDGER) => self.commit(operation, time, wall)?,
                        Ok(_) | Err(_) => self.apply(operation, time, wall)?,
                    }
                }
                Ok(())
            }
            Err(_) => self.apply(entry, time, wall),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line that a worker has written in a transaction.
    fn commit(&self, entry: &Document, time: Timestamp, wall: i64) -> Result<(), Failed> {
        let failed = |error| Failed::at("a line of the ledger", error);
        let line = entry.get_document("o").map_err(failed)?;
        let text = |field| line.get_str(field).map(str::to_owned).map_err(failed);
        let (call, name, transaction) = (text("call")?, text("name")?, text("_id")?);
        let committed = What::Committed { call, name, transaction, token: token(time) };
        self.log().commits.push((wall, committed));
        Ok(())
    }

    fn apply(&mut self, entry: &Document, time: Timestamp, wall: i64) -> Result<(), Failed> {
        let failed = |error| Failed::at("an oplog entry", error);
        let kind = entry.get_str("op").map_err(failed)?;
        let operation = entry.get_document("o").map_err(failed)?;
        if !matches!(kind, "i" | "u" | "d") {
            // The collection or one of its indexes was created, or the entry is a note of the suite.
            return Ok(());
        }
        let holder =
            if kind == "u" { entry.get_document("o2").map_err(failed)? } else { operation };
        let id = holder.get_object_id("_id").map_err(failed)?;
        let before = self.documents.remove(&id);
        let after = match (kind, &before) {
            ("i", _) => Some(operation.clone()),
            ("u", Some(before)) => Some(diff::updated(before, operation)?),
            ("u", None) => return Err(Failed::new(format!("an update of nothing: {entry}"))),
            (_, _) => None,
        };
        let named = after.as_ref().or(before.as_ref());
        let name = named.and_then(|document| document.get_str("name").ok());
        let change = Change {
            token: token(time),
            wall,
            name: name.unwrap_or_default().to_owned(),
            before: before.as_ref().map(|document| State::of(document).into()),
            after: after.as_ref().map(|document| State::of(document).into()),
        };
        self.log().changes.push(change);
        self.documents.extend(after.map(|after| (id, after)));
        Ok(())
    }
}
