//! Builds the commands of a migration, and reads their replies.

use mongo_lease_core::format::OF_ANOTHER_FORMAT;
use mongodb::bson::{Bson, Document, doc};

/// The key of an index build in `$currentOp`.
const CREATE_INDEXES: &str = "createIndexes";

/// Asks for the wire version, which decides what `collMod` can do.
pub(super) fn hello() -> Document {
    doc! { "hello": 1 }
}

pub(super) fn read_wire_version(reply: &Document) -> i32 {
    reply.get_i32("maxWireVersion").unwrap_or(0)
}

/// Asks which object has the collection's name.
pub(super) fn list_collection(collection: &str) -> Document {
    doc! { "listCollections": 1, "filter": { "name": collection } }
}

/// The object that has the collection's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundCollection {
    /// `collection`, `view` or `timeseries`, as the server names it.
    pub(super) kind: String,
    pub(super) is_capped: bool,
}

/// Reads the object; the inner `None` means that nothing has this name.
pub(super) fn read_collection(reply: &Document) -> Option<Option<FoundCollection>> {
    Some(first_batch(reply)?.first().map(|entry| FoundCollection {
        kind: entry.get_str("type").unwrap_or("collection").to_owned(),
        is_capped: entry.get_document("options").is_ok_and(|options| is_set(options, "capped")),
    }))
}

/// Whether a flag is set. Old collections have numbers in place of booleans.
fn is_set(document: &Document, field: &str) -> bool {
    match document.get(field) {
        None | Some(Bson::Null | Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) => false,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(_) => true,
    }
}

/// Lists the indexes. With `tells_builds`, it marks those still being built. The strict Stable API refuses that option;
/// without it, every index looks ready from the start.
pub(super) fn list_indexes(collection: &str, tells_builds: bool) -> Document {
    let mut command = doc! { "listIndexes": collection, "cursor": {} };
    if tells_builds {
        command.insert("includeBuildUUIDs", true);
    }
    command
}

/// A change to an existing index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Sets `expireAfterSeconds`; a plain index becomes a TTL index (MongoDB 5.1).
    Expiry(i64),
    /// Refuses new duplicates, or allows them again. Required before an index can become unique (MongoDB 6.0).
    PrepareUnique(bool),
    /// Makes the index unique.
    Unique,
}

/// Changes an index in place.
pub(super) fn change_index(collection: &str, name: &str, change: Change) -> Document {
    let mut index = doc! { "name": name };
    match change {
        Change::Expiry(seconds) => index.insert("expireAfterSeconds", seconds),
        Change::PrepareUnique(prepare) => index.insert("prepareUnique", prepare),
        Change::Unique => index.insert("unique", true),
    };
    let majority = doc! { "w": "majority", "j": true };
    doc! { "collMod": collection, "index": index, "writeConcern": majority }
}

/// Asks to prepare an index of a collection that does not exist, which changes nothing. A server that refuses the
/// option itself says so first.
pub(super) fn prepare_no_index(collection: &str) -> Document {
    let nowhere = format!("{collection}.mongo_lease_probe");
    doc! { "collMod": nowhere, "index": { "name": "name_1", "prepareUnique": true } }
}

/// Finds names that more than one document has, and lists up to `listed_max` of them. It reads the whole collection.
pub(super) fn find_duplicates(collection: &str, listed_max: i64) -> Document {
    let listed = Bson::Array(vec![
        Bson::Document(doc! { "$sort": { "count": -1, "_id": 1 } }),
        Bson::Document(doc! { "$limit": listed_max }),
    ]);
    doc! {
        "aggregate": collection,
        "pipeline": [
            { "$group": { "_id": "$name", "count": { "$sum": 1 } } },
            { "$match": { "count": { "$gt": 1 } } },
            { "$facet": { "total": [{ "$count": "count" }], "names": listed } },
        ],
        "cursor": {},
        "allowDiskUse": true,
        "collation": { "locale": "simple" },
        "readConcern": { "level": "majority" },
    }
}

/// Names that more than one document has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FoundDuplicates {
    /// The number of such names.
    pub(super) total: i64,
    /// The first of them, each with its number of documents. Documents without a name count under null.
    pub(super) names: Vec<(Bson, i64)>,
}

pub(super) fn read_duplicates(reply: &Document) -> Option<FoundDuplicates> {
    let facets = first_batch(reply)?;
    Some(FoundDuplicates {
        total: facet(&facets, "total").next().map_or(0, |row| whole(row, "count")),
        names: facet(&facets, "names")
            .map(|row| (row.get("_id").cloned().unwrap_or(Bson::Null), whole(row, "count")))
            .collect(),
    })
}

/// Finds the documents of another format: their number, and the first of their names.
pub(super) fn find_other_format(collection: &str, listed_max: i64) -> Document {
    let has = |field| doc! { field: { "$exists": true } };
    let names = vec![
        doc! { "$sort": { "name": 1 } },
        doc! { "$limit": listed_max },
        doc! { "$project": { "_id": 0, "name": 1 } },
    ];
    doc! {
        "aggregate": collection,
        "pipeline": [
            { "$match": { "$or": OF_ANOTHER_FORMAT.map(has).to_vec() } },
            { "$project": { "name": 1 } },
            { "$facet": { "total": [{ "$count": "count" }], "names": names } },
        ],
        "cursor": {},
        "allowDiskUse": true,
        "collation": { "locale": "simple" },
        "readConcern": { "level": "majority" },
    }
}

pub(super) fn read_other_format(reply: &Document) -> Option<(i64, Vec<Bson>)> {
    let facets = first_batch(reply)?;
    let total = facet(&facets, "total").next().map_or(0, |row| whole(row, "count"));
    let name = |row: &Document| row.get("name").cloned().unwrap_or(Bson::Null);
    Some((total, facet(&facets, "names").map(name).collect()))
}

/// The rows of one facet.
fn facet<'a>(facets: &[&'a Document], field: &str) -> impl Iterator<Item = &'a Document> + use<'a> {
    let rows = facets.first().and_then(|facets| facets.get_array(field).ok());
    rows.map(Vec::as_slice).unwrap_or_default().iter().filter_map(Bson::as_document)
}

/// Asks for the progress of an index build. Sent to the database `admin`.
pub(super) fn look_at_build(database: &str, collection: &str) -> Document {
    let operation = doc! {
        format!("command.{CREATE_INDEXES}"): collection,
        "command.$db": database,
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

/// The documents done, and all documents. `None` if the server does not say, as for users who see only their own
/// operations.
pub(super) fn read_build(reply: &Document) -> Option<(u64, u64)> {
    let operations = first_batch(reply)?;
    let progress = operations.first()?.get_document("progress").ok()?;
    let (done, total) = (whole(progress, "done"), whole(progress, "total"));
    Some((u64::try_from(done).ok()?, u64::try_from(total).ok()?))
}

fn whole(document: &Document, field: &str) -> i64 {
    let number = document.get(field);
    number.and_then(|n| n.as_i64().or_else(|| n.as_i32().map(i64::from))).unwrap_or(0)
}

/// The rows of a reply; `None` if it is not a listing.
pub(super) fn first_batch(reply: &Document) -> Option<Vec<&Document>> {
    let cursor = reply.get_document("cursor").ok()?;
    let batch = cursor.get_array("firstBatch").ok()?;
    Some(batch.iter().filter_map(Bson::as_document).collect())
}
