//! Source: the documents, and what happens to them.

use futures_util::{StreamExt, TryStreamExt};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::{ChangeStreamEvent, OperationType};
use mongodb::error::{ErrorKind, Result};
use mongodb::options::{
    CollectionOptions, FullDocumentType, ReadConcern, ReadPreference, SelectionCriteria,
};
use mongodb::{Collection, Database};

use crate::board::{Row, projection};
use crate::pattern::glob_regex;

/// Where leases are looked at.
pub(super) struct Source {
    collection: Collection<Document>,
    /// What the names have to match.
    name: Document,
}

/// What happens, as it happens.
pub(super) enum Stream {
    Open(Box<ChangeStream<ChangeStreamEvent<Document>>>),
    /// There is none, and why.
    None(String),
}

/// What an event means for its document.
pub(super) enum Meaning {
    /// It stands so now.
    Stands(Row),
    Gone,
    Nothing,
}

impl Source {
    pub(super) fn new(database: &Database, collection: &str, pattern: Option<&str>) -> Source {
        // Whatever the connection string says: what a majority has, from who writes.
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::majority())
            .build();
        let mut name = doc! { "$type": "string" };
        if let Some(pattern) = pattern {
            name.insert("$regex", glob_regex(pattern));
            name.insert("$options", "s");
        }
        Source { collection: database.collection_with_options(collection, options), name }
    }

    /// All that stands there.
    pub(super) async fn all(&self) -> Result<Vec<(Bson, Row)>> {
        let filter = doc! { "name": &self.name };
        let documents = self.collection.find(filter).projection(projection()).await?;
        let read = |document: Document| {
            document.get("_id").cloned().and_then(|id| Some((id, Row::of(&document)?)))
        };
        let found: Vec<Option<_>> = documents.map_ok(read).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// What happens from now on.
    pub(super) async fn open(&self) -> Result<Stream> {
        let mut fields = doc! { "operationType": 1, "documentKey": 1, "ns": 1, "clusterTime": 1 };
        for (field, one) in projection() {
            fields.insert(format!("fullDocument.{field}"), one);
        }
        // A deletion does not tell the name.
        let has_document = ["insert", "update", "replace"];
        let is_looked_at = doc! { "$or": [
            { "operationType": { "$nin": has_document.to_vec() } },
            { "fullDocument.name": &self.name },
        ] };
        let pipeline = [doc! { "$match": is_looked_at }, doc! { "$project": fields }];
        let opening = self.collection.watch().pipeline(pipeline);
        match opening.full_document(FullDocumentType::UpdateLookup).await {
            Ok(stream) => Ok(Stream::Open(Box::new(stream))),
            Err(error) => match why_none(&error) {
                Some(why) => Ok(Stream::None(why.to_owned())),
                None => Err(error),
            },
        }
    }
}

impl Stream {
    /// The next event. Without a stream it never comes.
    pub(super) async fn next(&mut self) -> Option<Result<ChangeStreamEvent<Document>>> {
        match self {
            Stream::Open(stream) => stream.next().await,
            Stream::None(_) => std::future::pending().await,
        }
    }
}

/// Why there can be no stream, if that is what the server says.
fn why_none(error: &mongodb::error::Error) -> Option<&'static str> {
    const UNAUTHORIZED: i32 = 13;
    const NO_REPLICA_SET: i32 = 40_573;
    let ErrorKind::Command(command) = error.kind.as_ref() else { return None };
    match command.code {
        UNAUTHORIZED => Some("the user lacks the privilege `changeStream`"),
        NO_REPLICA_SET => Some("the server is not a replica set"),
        _ => None,
    }
}

// Whatever else a server tells of is no change of a lease.
#[allow(clippy::wildcard_enum_match_arm)]
pub(super) fn meaning(event: &ChangeStreamEvent<Document>) -> Meaning {
    let row = || event.full_document.as_ref().and_then(Row::of);
    match event.operation_type {
        OperationType::Insert | OperationType::Update | OperationType::Replace => {
            row().map_or(Meaning::Nothing, Meaning::Stands)
        }
        OperationType::Delete => Meaning::Gone,
        _ => Meaning::Nothing,
    }
}
