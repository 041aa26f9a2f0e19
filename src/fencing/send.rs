//! Sends a fenced write and tells its outcome.

use std::fmt;
use std::pin::Pin;

use mongodb::bson::{Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind, WriteFailure};
use mongodb::options::{
    Acknowledgment, CollectionOptions, FindOneOptions, ReadConcern, ReadPreference,
    SelectionCriteria, UpdateOptions,
};
use mongodb::results::UpdateResult;
use mongodb::{ClientSession, Collection};

use super::{Fenced, FencedWrite, fence};
use crate::error::{Error, Result};
use crate::failure::driver_failure;

const DUPLICATE_KEY: i32 = 11_000;

/// A fenced write that is sent when awaited. Made by [`FencedWrite::send`].
///
/// # Outcome
/// A write that matches is [`Applied`](Fenced::Applied). After a write that does not, a read (`find`, on the primary,
/// with read concern `local`) searches for a document that matches the filter and refuses the token. If there is one,
/// the answer is [`Refused`](Fenced::Refused); a newer token that the read saw may still be undone by a failover. If
/// there is none, the answer is [`NoSuchDocument`](Fenced::NoSuchDocument): nothing matched the filter at the moment of
/// the write, or the document that refused was gone before the read.
///
/// # Write concern
/// The write is acknowledged by a majority and in the journal, whatever the collection's own write concern says, of
/// which the timeout is kept. [`with_options`](SendFencedWrite::with_options) can set another. With less than a
/// majority, a failover may undo the stored token, and then an older holder's write is not refused any more. Within a
/// transaction, the transaction's write concern applies.
///
/// # Errors
/// - [`Error::InvalidOption`] when an upsert, or an option, cannot be fenced. Nothing was sent.
/// - [`Error::MongoDb`] when the server refused the write for a reason of its own, such as a validator, or a duplicate
///   key (code 11000) in any index other than that of `_id`. Nothing was written. It carries the driver's labels, and
///   `?` turns it into the driver's error in a transaction's callback. A failure of the read gives this error too.
/// - [`Error::Unknown`] when the write may have been done, or may not last: the connection broke, or no majority has
///   confirmed it.
///
/// # Cancel safety
/// Dropping the future leaves it open whether the write was done. The fence holds in both cases.
#[must_use = "a write does nothing until it is awaited"]
pub struct SendFencedWrite<'a> {
    write: FencedWrite,
    collection: Collection<Document>,
    options: UpdateOptions,
    session: Option<&'a mut ClientSession>,
}

impl FencedWrite {
    /// Sends the write to this collection when awaited, and returns its outcome.
    pub fn send<'a, T: Send + Sync>(self, collection: &Collection<T>) -> SendFencedWrite<'a> {
        let (collection, options) = (collection.clone_with_type(), UpdateOptions::default());
        SendFencedWrite { write: self, collection, options, session: None }
    }
}

impl<'a> SendFencedWrite<'a> {
    /// The driver's options of `update_one`: array filters, hint, variables, write concern and so on. Replaces all
    /// options that were set before, also [`upsert`](SendFencedWrite::upsert).
    pub fn with_options(mut self, options: impl Into<Option<UpdateOptions>>) -> Self {
        self.options = options.into().unwrap_or_default();
        self
    }

    /// Inserts the document where there is none; off by default.
    ///
    /// The filter must have equality on `_id`, or it would insert a second document where the fence refuses. It must
    /// not name the fence's field. Neither a collation nor a session may be set: a collation may find other documents
    /// than the index of `_id` does, and a duplicate key ends a transaction. On a sharded collection the filter must
    /// also name the whole shard key, and the key must not change: `_id` is unique only within a shard.
    ///
    /// When the insert collides on `_id`, the write is repeated without upsert. If that matches nothing, the answer is
    /// `Refused`, or `NoSuchDocument` when the rest of the filter did not match or the document was deleted meanwhile.
    pub fn upsert(mut self, upsert: bool) -> Self {
        self.options.upsert = Some(upsert);
        self
    }

    /// Sends the write and the read in this session of the collection's client, and in its transaction if any. Then the
    /// answer describes the transaction's snapshot, and holds only if the transaction commits.
    pub fn session(mut self, session: &'a mut ClientSession) -> Self {
        self.session = Some(session);
        self
    }

    fn check(&self) -> Result<()> {
        if self.options.upsert != Some(true) {
            return Ok(());
        }
        fence::check_upsert(&self.write.fence.field, &self.write.filter)?;
        let refuse = |reason: &str| Err(Error::invalid_option("upsert", reason));
        if self.options.collation.is_some() {
            return refuse("with a collation, the filter can match documents with another `_id`");
        }
        if self.session.is_some() {
            let reason = "an upsert cannot use a session: a duplicate key aborts its transaction";
            return refuse(reason);
        }
        Ok(())
    }

    async fn carry_out(mut self) -> Result<Fenced> {
        self.check()?;
        self.collection = confirmed_by_majority(&self.collection);
        let written = match self.update().await {
            // Another program has inserted the document, or the fence has refused: a repetition without upsert tells
            // which.
            Err(error) if self.options.upsert == Some(true) && self.collides_on_id(&error) => {
                self.options.upsert = Some(false);
                self.update().await
            }
            written => written,
        };
        let written = written.map_err(not_written)?;
        if written.matched_count > 0 || written.upserted_id.is_some() {
            return Ok(Fenced::Applied);
        }
        Ok(match self.find_document().await? {
            Some(document) => Fenced::Refused { seen: self.write.token_in(&document) },
            None => Fenced::NoSuchDocument,
        })
    }

    async fn update(&mut self) -> mongodb::error::Result<UpdateResult> {
        let (filter, update) = self.write.clone().into_parts();
        let action = self.collection.update_one(filter, update).with_options(self.options.clone());
        match &mut self.session {
            Some(session) => action.session(&mut **session).await,
            None => action.await,
        }
    }

    /// A document that matches the caller's filter and refuses the token.
    async fn find_document(&mut self) -> mongodb::error::Result<Option<Document>> {
        let options = FindOneOptions::builder()
            .projection(doc! { &self.write.fence.field: 1 })
            .collation(self.options.collation.clone())
            .hint(self.options.hint.clone())
            .let_vars(self.options.let_vars.clone())
            .comment(self.options.comment.clone())
            .build();
        let refusing = self.write.fence.refusing(self.write.filter.clone());
        let action = self.collection.find_one(refusing).with_options(options);
        match &mut self.session {
            Some(session) => action.session(&mut **session).await,
            None => action.await,
        }
    }

    /// Whether a duplicate-key error is about the document that the filter names.
    fn collides_on_id(&self, error: &DriverError) -> bool {
        let ErrorKind::Write(WriteFailure::WriteError(error)) = error.kind.as_ref() else {
            return false;
        };
        let prefix =
            format!("E11000 duplicate key error collection: {} ", self.collection.namespace());
        error.code == DUPLICATE_KEY
            && error.message.strip_prefix(&prefix).is_some_and(is_index_of_id)
    }
}

/// Whether the text after the collection's name in the server's message names the index of `_id`. A clustered
/// collection has no such index, and names none.
fn is_index_of_id(text: &str) -> bool {
    text.starts_with("index: _id_ dup key: ")
        || text.starts_with("index: _id_ collation: ")
        || text.starts_with("dup key: { _id: ")
}

/// Collection options that do not override a transaction's own, as the options of a single operation would.
fn confirmed_by_majority(collection: &Collection<Document>) -> Collection<Document> {
    let mut concern = collection.write_concern().cloned().unwrap_or_default();
    concern.w = Some(Acknowledgment::Majority);
    concern.journal = Some(true);
    let options = CollectionOptions::builder()
        .write_concern(concern)
        .read_concern(ReadConcern::local())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .build();
    let name = collection.name();
    collection.client().database(&collection.namespace().db).collection_with_options(name, options)
}

/// The server's error for this one statement is certain. All other driver errors are read as for a lease.
fn not_written(error: DriverError) -> Error {
    if let ErrorKind::Write(WriteFailure::WriteError(_)) = error.kind.as_ref() {
        return Error::MongoDb(error);
    }
    driver_failure(error).into()
}

impl<'a> IntoFuture for SendFencedWrite<'a> {
    type Output = Result<Fenced>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Fenced>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}

impl fmt::Debug for SendFencedWrite<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("SendFencedWrite");
        shown.field("write", &self.write).field("collection", &self.collection.namespace());
        shown.finish_non_exhaustive()
    }
}
