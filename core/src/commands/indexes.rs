//! Commands that list and create indexes, and that look at the documents before leases are granted.

use super::find::documents;
use super::*;
use crate::schema::IndexSpec;

/// Asks what kind of collection has the configured name.
#[derive(Clone, Debug)]
pub struct LookAtCollection;

/// The collection of that name: its kind, and whether it is capped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCollection {
    /// `collection`, `view` or `timeseries`, in the server's words.
    pub kind: String,
    /// Whether the collection is capped.
    pub is_capped: bool,
}

impl Command for LookAtCollection {
    /// `None` when there is no collection of this name.
    type Reply = Option<FoundCollection>;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        doc! { "listCollections": 1, "filter": { "name": collection } }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Self::Reply, DecodeError> {
        Ok(documents(reply)?.next().map(|entry| FoundCollection {
            kind: entry.get_str("type").unwrap_or("collection").to_owned(),
            is_capped: entry.get_document("options").is_ok_and(|options| is_set(options, "capped")),
        }))
    }
}

/// Lists the collection's indexes.
#[derive(Clone, Debug)]
pub struct ListIndexes {
    /// Asks which indexes are still being built. The strict Stable API refuses that option; without it an index looks
    /// ready from the start.
    pub tells_builds: bool,
}

/// An index, with the properties that matter here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundIndex {
    /// Its name.
    pub name: String,
    /// Its keys, in their order.
    pub key: Document,
    /// Whether it is unique.
    pub is_unique: bool,
    /// Whether it is sparse.
    pub is_sparse: bool,
    /// Whether it has a filter.
    pub is_partial: bool,
    /// Whether it is hidden from plans.
    pub is_hidden: bool,
    /// The locale of a collation other than the simple one.
    pub collation: Option<String>,
    /// Its `expireAfterSeconds`, of any type.
    pub expire_after_seconds: Option<Bson>,
    /// The index is still being built, and has no effect yet.
    pub is_building: bool,
}

impl Command for ListIndexes {
    type Reply = Vec<FoundIndex>;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let mut command = doc! { "listIndexes": collection, "cursor": {} };
        if self.tells_builds {
            command.insert("includeBuildUUIDs", true);
        }
        command
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<FoundIndex>, DecodeError> {
        // A collection has at most 64 indexes: one batch.
        Ok(documents(reply)?.map(read_index).collect())
    }
}

/// Decodes one entry of the list of indexes.
pub fn read_index(entry: &Document) -> FoundIndex {
    let index = entry.get_document("spec").unwrap_or(entry);
    let collation = index.get_document("collation").ok();
    FoundIndex {
        name: text(index, "name").unwrap_or_default(),
        key: index.get_document("key").cloned().unwrap_or_default(),
        is_unique: is_set(index, "unique"),
        is_sparse: is_set(index, "sparse"),
        is_partial: index.contains_key("partialFilterExpression"),
        is_hidden: is_set(index, "hidden"),
        collation: collation.and_then(|it| text(it, "locale")).filter(|it| it != "simple"),
        expire_after_seconds: index.get("expireAfterSeconds").cloned(),
        is_building: entry.contains_key("buildUUID"),
    }
}

/// Whether the field is true. Old indexes have numbers in place of booleans.
fn is_set(document: &Document, field: &str) -> bool {
    match document.get(field) {
        None | Some(Bson::Null | Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) => false,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(_) => true,
    }
}

impl IndexSpec {
    /// The `createIndexes` command that creates this index under a name.
    ///
    /// It creates the collection too where it is missing. If the index exists already, or is being built, the command
    /// waits until it is ready.
    #[must_use]
    pub fn create_command(&self, collection: &str, name: &str) -> Document {
        let mut index = doc! { "name": name, "key": { self.key: 1 } };
        if self.unique {
            index.insert("unique", true);
        }
        if let Some(seconds) = self.expire_after_seconds {
            index.insert("expireAfterSeconds", seconds);
        }
        // Stated explicitly: otherwise the index takes the collection's default, under which `A` may equal `a`.
        index.insert("collation", simple_collation());
        doc! { "createIndexes": collection, "indexes": [index], "writeConcern": majority() }
    }
}

/// Creates an index; see [`IndexSpec::create_command`].
#[derive(Clone, Debug)]
pub struct CreateIndex {
    /// Its name.
    pub name: String,
    /// The index.
    pub spec: IndexSpec,
}

impl Command for CreateIndex {
    type Reply = ();
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        self.spec.create_command(collection, &self.name)
    }

    fn decode(&self, _reply: &Document, _sent: Instant) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// Counts the names that more than one document has. Reads the whole collection.
#[derive(Clone, Debug)]
pub struct CountDuplicates;

impl Command for CountDuplicates {
    type Reply = i64;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        doc! {
            "aggregate": collection,
            "pipeline": [
                { "$group": { "_id": path(format::NAME), "count": { "$sum": 1 } } },
                { "$match": { "count": { "$gt": 1 } } },
                { "$count": "count" },
            ],
            "cursor": {},
            "allowDiskUse": true,
            "collation": simple_collation(),
            "readConcern": majority_read(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<i64, DecodeError> {
        let row = documents(reply)?.next();
        Ok(row.and_then(|row| reply::number(row, "count")).unwrap_or(0))
    }
}

/// Looks for a document of another format. Reads the whole collection where there is none, so its time is short.
#[derive(Clone, Debug)]
pub struct FindOtherFormat;

impl Command for FindOtherFormat {
    /// The field that such a document has.
    type Reply = Option<&'static str>;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let fields = format::OF_ANOTHER_FORMAT;
        let shown = fields.map(|field| (field.to_owned(), Bson::Int32(1)));
        doc! {
            "find": collection,
            "filter": any(fields.map(|field| doc! { field: { "$exists": true } })),
            "projection": Document::from_iter(shown),
            "limit": 1,
            "singleBatch": true,
            "readConcern": majority_read(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Self::Reply, DecodeError> {
        let found = documents(reply)?.next();
        let shows = |field: &&str| found.is_some_and(|document| has_field(document, field));
        Ok(format::OF_ANOTHER_FORMAT.into_iter().find(shows))
    }
}

/// Whether the document has the field at this path, or an element of the list there has it.
fn has_field(document: &Document, path: &str) -> bool {
    let Some((outer, inner)) = path.split_once('.') else { return document.contains_key(path) };
    let has = |found: &Bson| found.as_document().is_some_and(|it| it.contains_key(inner));
    match document.get(outer) {
        Some(Bson::Array(elements)) => elements.iter().any(has),
        found => found.is_some_and(has),
    }
}
