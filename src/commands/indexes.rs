//! Indexes: looking at them, and making them what they have to be.

use mongodb::bson::{Bson, Document, doc};

use super::snapshot;
use super::{majority, majority_read, path, simple_collation};
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::info::LeaseInfo;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::schema::{self, WantedIndex};

/// Where an operation under way shows in `$currentOp`.
const CREATE_INDEXES: &str = "createIndexes";

/// Asks for the wire version, from which it follows what `collMod` can do.
#[derive(Clone, Debug)]
pub(crate) struct WireVersion;

impl Command for WireVersion {
    type Reply = i32;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        doc! { "hello": 1 }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<i32, Cause> {
        Ok(reply.get_i32("maxWireVersion").unwrap_or(0))
    }
}

/// What stands under the collection's name.
#[derive(Clone, Debug)]
pub(crate) struct LookAtCollection {
    pub(crate) collection: String,
}

/// What was found under the collection's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundCollection {
    /// `collection`, `view` or `timeseries`, in the server's words.
    pub(crate) kind: String,
    pub(crate) is_capped: bool,
}

impl Command for LookAtCollection {
    /// `None` when there is nothing of this name.
    type Reply = Option<FoundCollection>;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        doc! { "listCollections": 1, "filter": { "name": &self.collection } }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Self::Reply, Cause> {
        let found = first_batch(reply)?;
        Ok(found.first().map(|entry| FoundCollection {
            kind: entry.get_str("type").unwrap_or("collection").to_owned(),
            is_capped: entry.get_document("options").is_ok_and(|options| is_set(options, "capped")),
        }))
    }
}

/// Lists the collection's indexes.
#[derive(Clone, Debug)]
pub(crate) struct ListIndexes {
    pub(crate) collection: String,
    /// Asks which of them are still being built. The strict Stable API refuses that question; without it an index looks
    /// ready from the start.
    pub(crate) tells_builds: bool,
}

/// An index, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FoundIndex {
    pub(crate) name: String,
    pub(crate) key: Document,
    pub(crate) is_unique: bool,
    pub(crate) is_sparse: bool,
    pub(crate) is_partial: bool,
    pub(crate) is_hidden: bool,
    /// The locale of a collation other than the simple one.
    pub(crate) collation: Option<String>,
    /// Its `expireAfterSeconds`, of whatever type it is.
    pub(crate) expire_after_seconds: Option<Bson>,
    /// It is still being built, and does nothing yet.
    pub(crate) is_building: bool,
}

impl Command for ListIndexes {
    type Reply = Vec<FoundIndex>;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        let mut command = doc! { "listIndexes": &self.collection, "cursor": {} };
        if self.tells_builds {
            command.insert("includeBuildUUIDs", true);
        }
        command
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<FoundIndex>, Cause> {
        // A collection has 64 indexes at most: one batch.
        Ok(first_batch(reply)?.into_iter().map(read_index).collect())
    }
}

fn read_index(entry: &Document) -> FoundIndex {
    let is_building = entry.contains_key("buildUUID");
    let index = entry.get_document("spec").unwrap_or(entry);
    let locale = |collation: &Document| collation.get_str("locale").map(str::to_owned).ok();
    FoundIndex {
        name: index.get_str("name").unwrap_or_default().to_owned(),
        key: index.get_document("key").cloned().unwrap_or_default(),
        is_unique: is_set(index, "unique"),
        is_sparse: is_set(index, "sparse"),
        is_partial: index.contains_key("partialFilterExpression"),
        is_hidden: is_set(index, "hidden"),
        collation: index
            .get_document("collation")
            .ok()
            .and_then(locale)
            .filter(|locale| locale != "simple"),
        expire_after_seconds: index.get("expireAfterSeconds").cloned(),
        is_building,
    }
}

/// Old indexes have numbers where a truth is meant.
fn is_set(document: &Document, field: &str) -> bool {
    match document.get(field) {
        None | Some(Bson::Null | Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) => false,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(_) => true,
    }
}

/// Makes an index; and the collection, where there is none. When the index is there already, or is being built, it
/// waits until it is ready.
#[derive(Clone, Debug)]
pub(crate) struct CreateIndex {
    pub(crate) collection: String,
    pub(crate) name: String,
    pub(crate) wanted: WantedIndex,
}

impl Command for CreateIndex {
    type Reply = ();

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        let mut index = doc! { "name": &self.name, "key": { self.wanted.key: 1 } };
        if self.wanted.unique {
            index.insert("unique", true);
        }
        if let Some(seconds) = self.wanted.expire_after_seconds {
            index.insert("expireAfterSeconds", seconds);
        }
        // Said aloud, for else the index takes the collection's default, and `A` is `a` there.
        index.insert("collation", simple_collation());
        doc! {
            CREATE_INDEXES: &self.collection,
            "indexes": [index],
            "writeConcern": majority(),
        }
    }

    fn decode(&self, _reply: &Document, _sent: Instant) -> Result<(), Cause> {
        Ok(())
    }
}

/// Changes an index in place.
#[derive(Clone, Debug)]
pub(crate) struct ChangeIndex {
    pub(crate) collection: String,
    pub(crate) name: String,
    pub(crate) change: Change,
}

/// What to change of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Sets `expireAfterSeconds`; a plain index becomes a TTL index (MongoDB 5.1).
    Expiry(i64),
    /// Whether new duplicates are refused, without which an index cannot become unique (MongoDB 6.0).
    PrepareUnique(bool),
    /// Makes it unique.
    Unique,
}

impl Command for ChangeIndex {
    type Reply = ();

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        let mut index = doc! { "name": &self.name };
        match self.change {
            Change::Expiry(seconds) => index.insert("expireAfterSeconds", seconds),
            Change::PrepareUnique(prepare) => index.insert("prepareUnique", prepare),
            Change::Unique => index.insert("unique", true),
        };
        doc! { "collMod": &self.collection, "index": index, "writeConcern": majority() }
    }

    fn decode(&self, _reply: &Document, _sent: Instant) -> Result<(), Cause> {
        Ok(())
    }
}

/// Finds names that more than one document has. It reads the whole collection.
#[derive(Clone, Debug)]
pub(crate) struct Duplicates {
    pub(crate) collection: String,
    /// How many names are listed.
    pub(crate) listed_max: i64,
}

/// Names that more than one document has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundDuplicates {
    /// How many such names there are.
    pub(crate) total: i64,
    /// The first of them, each with the number of its documents. Documents without a name have the name null.
    pub(crate) names: Vec<(Bson, i64)>,
}

impl Command for Duplicates {
    type Reply = FoundDuplicates;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        let listed = Bson::Array(vec![
            Bson::Document(doc! { "$sort": { "count": -1, "_id": 1 } }),
            Bson::Document(doc! { "$limit": self.listed_max }),
        ]);
        doc! {
            "aggregate": &self.collection,
            "pipeline": [
                { "$group": { "_id": path(schema::NAME), "count": { "$sum": 1 } } },
                { "$match": { "count": { "$gt": 1 } } },
                { "$facet": { "total": [{ "$count": "count" }], "names": listed } },
            ],
            "cursor": {},
            "allowDiskUse": true,
            "collation": simple_collation(),
            "readConcern": majority_read(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<FoundDuplicates, Cause> {
        let facets = first_batch(reply)?;
        let facet = |field: &str| {
            let rows = facets.first().and_then(|facets| facets.get_array(field).ok());
            rows.map(Vec::as_slice).unwrap_or_default().iter().filter_map(Bson::as_document)
        };
        Ok(FoundDuplicates {
            total: facet("total").next().map_or(0, |row| whole(row, "count")),
            names: facet("names")
                .map(|row| (row.get("_id").cloned().unwrap_or(Bson::Null), whole(row, "count")))
                .collect(),
        })
    }
}

fn whole(document: &Document, field: &str) -> i64 {
    let number = document.get(field);
    number.and_then(|n| n.as_i64().or_else(|| n.as_i32().map(i64::from))).unwrap_or(0)
}

/// Looks at the documents of one name, also where it is no string.
#[derive(Clone, Debug)]
pub(crate) struct Holders {
    pub(crate) collection: String,
    pub(crate) name: Bson,
    pub(crate) limit: i64,
}

impl Command for Holders {
    type Reply = Vec<LeaseInfo>;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        doc! {
            "find": &self.collection,
            // A name that is a document must not be taken for operators.
            "filter": { schema::NAME: { "$eq": &self.name } },
            "projection": snapshot::projection(),
            "limit": self.limit,
            "batchSize": self.limit,
            "singleBatch": true,
            "collation": simple_collation(),
            "readConcern": majority_read(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<LeaseInfo>, Cause> {
        Ok(first_batch(reply)?.into_iter().map(|document| snapshot::read(document).info).collect())
    }
}

/// Asks how far the building of an index is. Goes to the database `admin`.
#[derive(Clone, Debug)]
pub(crate) struct LookAtBuild {
    pub(crate) database: String,
    pub(crate) collection: String,
}

impl Command for LookAtBuild {
    /// How many documents are done, of how many; `None` when the server does not say, as it does to users who see their
    /// own operations only.
    type Reply = Option<(i64, i64)>;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        let operation = doc! {
            format!("command.{CREATE_INDEXES}"): &self.collection,
            "command.$db": &self.database,
            "progress.total": { "$gt": 0 },
        };
        doc! {
            "aggregate": 1,
            "pipeline": [
                { "$currentOp": { "allUsers": false } },
                { "$match": operation },
                { "$limit": 1 },
                { "$project": { "progress": 1 } },
            ],
            "cursor": {},
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Self::Reply, Cause> {
        let operations = first_batch(reply)?;
        let progress = operations.first().and_then(|row| row.get_document("progress").ok());
        Ok(progress.map(|progress| (whole(progress, "done"), whole(progress, "total"))))
    }
}

fn first_batch(reply: &Document) -> Result<Vec<&Document>, Cause> {
    let batch = reply
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("firstBatch"))
        .map_err(|_| Cause::Reply("a listing was answered without a batch".to_owned()))?;
    Ok(batch.iter().filter_map(Bson::as_document).collect())
}
