//! The source of lease documents and of their changes.

use futures_util::{StreamExt, TryStreamExt};
use mongo_lease::List;
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::{ChangeStreamEvent, OperationType};
use mongodb::error::{ErrorKind, Result};
use mongodb::options::{
    CollectionOptions, FullDocumentType, ReadConcern, ReadPreference, SelectionCriteria,
};
use mongodb::{Collection, Database};

use crate::board::{Row, projection};

/// The collection that is watched.
pub(super) struct Source {
    collection: Collection<Document>,
    /// The filter on names.
    name: Document,
}

/// A stream of changes, if the server has change streams.
pub(super) enum Stream {
    Open(Box<ChangeStream<ChangeStreamEvent<Document>>>),
    /// There are no change streams, for this reason.
    None(String),
}

/// The meaning of an event for its document.
pub(super) enum Meaning {
    /// The document now has this state.
    Stands(Row),
    Gone,
    Nothing,
}

impl Source {
    pub(super) fn new(database: &Database, collection: &str, pattern: Option<&str>) -> Source {
        // Reads majority-committed data from the primary, whatever the connection string says.
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::majority())
            .build();
        let mut name = doc! { "$type": "string" };
        if let Some(pattern) = pattern {
            name.insert("$regex", List::glob_regex(pattern));
            name.insert("$options", "s");
        }
        Source { collection: database.collection_with_options(collection, options), name }
    }

    /// Reads all matching documents.
    pub(super) async fn all(&self) -> Result<Vec<(Bson, Row)>> {
        let filter = doc! { "name": &self.name };
        let documents = self.collection.find(filter).projection(projection()).await?;
        let read = |document: Document| {
            document.get("_id").cloned().and_then(|id| Some((id, Row::of(&document)?)))
        };
        let found: Vec<Option<_>> = documents.map_ok(read).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Opens a stream of the changes from now on.
    pub(super) async fn open(&self) -> Result<Stream> {
        let mut fields = doc! { "operationType": 1, "documentKey": 1, "ns": 1, "clusterTime": 1 };
        for (field, one) in projection() {
            fields.insert(format!("fullDocument.{field}"), one);
        }
        // A deletion event does not contain the name.
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

/// Why change streams are not available, if the server says so.
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

// Other events of a server are not changes of a lease.
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
