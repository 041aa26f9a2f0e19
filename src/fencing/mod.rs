//! Fenced writes: each is a whole write that stores a token and refuses older ones.
//!
//! 1. Whatever filter and update the caller gives, the merged write stores the token in the field, or it is refused
//!    before it is sent.
//! 2. The merged write changes no document that holds a newer token, or a value that is no token.
//! 3. Where readers share the resource, two tokens are kept: readers that hold together do not refuse each other, and a
//!    reader and a writer do.
//!
//! `fence` is pure. `send` uses the driver's own `update_one` and not the runner: the write is the caller's, with the
//! caller's collection, options and session. The driver's retry of it is harmless, because a stored answer to a fenced
//! write is still true.

mod fence;
mod send;
#[cfg(test)]
mod tests;

use mongodb::bson::Document;
use mongodb::options::UpdateModifications;

use self::fence::{Fence, FenceKind};
pub use self::send::SendFencedWrite;
use crate::error::Result;
use crate::token::Token;

impl Token {
    /// Makes a write that stores this token in `field`, and that the server refuses where the document holds a newer
    /// one.
    ///
    /// The filter and the update are complete: nothing has to be added to them, and nothing may be. The result has
    ///
    /// - the filter `{$and: [filter, {$or: [{field: {$lte: token}}, {field: null}]}, …]}`, whose further conditions
    ///   refuse an array in `field` or in what contains it;
    /// - the update with the token joined to its `$set`, or, where it is a pipeline, with a last stage
    ///   `{$set: {field: token}}`.
    ///
    /// A document without the field, or with null there, has seen no token. A value of any type other than `Timestamp`
    /// refuses every write. Each document has a fence of its own, so the filter should name one document. Every write
    /// to it has to be fenced by the same field: an unfenced one is not refused.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption), and nothing is sent,
    ///
    /// - for `field`, when it or a part of the dotted path is empty, begins with `$` or contains NUL, or when it is
    ///   `_id` or a part of it;
    /// - for `update`, when it is empty, is a replacement without operators (a pipeline with `$replaceWith` replaces),
    ///   has an operator or a stage that MongoDB 6.0 does not document, or names the field, a parent of it, or a part
    ///   of it, also as the target of a `$rename`; and when `field` is a dotted path and a stage replaces the whole
    ///   document.
    ///
    /// # Examples
    /// ```no_run
    /// # use mongo_lease::mongodb::{self, bson::{Document, doc}};
    /// # async fn example(
    /// #     invoices: mongodb::Collection<Document>, lease: mongo_lease::Lease,
    /// # ) -> mongo_lease::Result<()> {
    /// use mongo_lease::Fenced;
    ///
    /// let update = doc! { "$inc": { "total": 1 }, "$set": { "state": "sent" } };
    /// let write = lease.token()?.fenced_write("fence", doc! { "_id": 42 }, update)?;
    /// match write.send(&invoices).await? {
    ///     Fenced::Applied => {}
    ///     Fenced::NoSuchDocument => {} // nothing matches `{ "_id": 42 }`
    ///     Fenced::Refused { .. } => {} // a later holder has written: this one has lost its lease
    ///     _ => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_write(
        self,
        field: &str,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Result<FencedWrite> {
        FencedWrite::new(FenceKind::One, self, field, filter, update.into())
    }

    /// Makes a write of an exclusive holder to a resource that shared holders write to by
    /// [`fenced_shared_write`](Token::fenced_shared_write), which says what the fence guarantees.
    ///
    /// It stores this token in `field`, as a document `{seen, exclusive}`, and is refused after every newer token, of
    /// an exclusive holder or of a shared one.
    ///
    /// # Errors
    /// As [`fenced_write`](Token::fenced_write).
    pub fn fenced_exclusive_write(
        self,
        field: &str,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Result<FencedWrite> {
        FencedWrite::new(FenceKind::OfExclusive, self, field, filter, update.into())
    }

    /// Makes a write of a shared holder: of a reader, or of a holder of permits.
    ///
    /// Tokens of leases that are held at the same time are in no order, so a fence with one token would let such
    /// holders refuse each other. This fence keeps two in `field`: `seen`, the newest of all, and `exclusive`, the
    /// newest of an exclusive holder. A shared holder's write is refused after a newer `exclusive`, and raises
    /// `seen`; an exclusive holder's write, by [`fenced_exclusive_write`](Token::fenced_exclusive_write), is refused
    /// after a newer `seen`, and stores both.
    ///
    /// # Guarantees
    /// - No write of a shared holder is applied after that of a later exclusive holder, and none of an exclusive holder
    ///   after that of a later holder of either kind.
    /// - Holders that may hold at the same time do not refuse each other.
    /// - **It does not enforce the limit of a semaphore.** A holder whose permit has ended is not refused because
    ///   others have its permit now: nothing in a token tells how many there are.
    ///
    /// Every write to the document has to be fenced by the same field, and by one of these two methods. A document with
    /// the token of [`fenced_write`](Token::fenced_write) in the field refuses every write: use a field of its own.
    ///
    /// # Errors
    /// As [`fenced_write`](Token::fenced_write); and [`Error::InvalidOption`](crate::Error::InvalidOption) for a
    /// pipeline with `$project`, `$replaceWith` or `$replaceRoot`, which could remove the token of the exclusive
    /// holder.
    ///
    /// # Examples
    /// ```no_run
    /// # use mongo_lease::mongodb::{self, bson::{Document, doc}};
    /// # async fn example(
    /// #     reports: mongodb::Collection<Document>,
    /// #     reader: mongo_lease::Lease,
    /// #     writer: mongo_lease::Lease,
    /// # ) -> mongo_lease::Result<()> {
    /// // A reader counts itself; others that hold beside it do the same.
    /// let counted = doc! { "$inc": { "readers": 1 } };
    /// let write = reader.token()?.fenced_shared_write("fence", doc! { "_id": 42 }, counted)?;
    /// assert!(write.send(&reports).await?.is_applied());
    ///
    /// // A writer replaces the report. The readers of before can write no more.
    /// let renewed = doc! { "$set": { "text": "new", "readers": 0 } };
    /// let write = writer.token()?.fenced_exclusive_write("fence", doc! { "_id": 42 }, renewed)?;
    /// assert!(write.send(&reports).await?.is_applied());
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_shared_write(
        self,
        field: &str,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Result<FencedWrite> {
        FencedWrite::new(FenceKind::OfShare, self, field, filter, update.into())
    }
}

/// A complete write that stores a token and is refused after a newer one.
///
/// Made by [`Token::fenced_write`], and by [`Token::fenced_exclusive_write`] and [`Token::fenced_shared_write`] for a
/// resource that several holders share. [`send`](FencedWrite::send) sends it; [`into_parts`](FencedWrite::into_parts)
/// is for callers that do so themselves.
#[must_use = "a write does nothing until it is sent"]
#[derive(Clone, Debug)]
pub struct FencedWrite {
    fence: Fence,
    /// The caller's filter.
    filter: Document,
    /// The merged update.
    update: UpdateModifications,
}

impl FencedWrite {
    fn new(
        kind: FenceKind,
        token: Token,
        field: &str,
        filter: Document,
        update: UpdateModifications,
    ) -> Result<FencedWrite> {
        fence::check_field(field)?;
        let fence = Fence { kind, token, field: field.to_owned() };
        let update = fence.update(update)?;
        Ok(FencedWrite { fence, filter, update })
    }

    /// The merged filter and update, for `update_one`, `find_one_and_update` and bulk writes.
    ///
    /// Both have to be sent unchanged and together. A write that matches nothing was refused, or there is no such
    /// document: the pair alone cannot tell. Do not let it upsert unless the filter has equality on `_id`: otherwise,
    /// where the fence refuses, the server would insert a second document. With equality on `_id`, the error 11000 for
    /// `_id` means that the document exists and did not match; no collation may be set then. With a write concern of
    /// less than a majority, a failover may undo a stored token, and then an older holder's write is not refused.
    ///
    /// # Examples
    /// ```no_run
    /// # use mongo_lease::mongodb::{self, bson::{Document, doc}};
    /// # async fn example(
    /// #     invoices: mongodb::Collection<Document>, token: mongo_lease::Token,
    /// # ) -> mongo_lease::Result<()> {
    /// use mongo_lease::mongodb::options::UpdateOneModel;
    ///
    /// let paid = doc! { "$set": { "state": "paid" } };
    /// let write = token.fenced_write("fence", doc! { "_id": 42 }, paid)?;
    ///
    /// let (filter, update) = write.clone().into_parts();
    /// let before = invoices.find_one_and_update(filter, update).await?;
    ///
    /// let (filter, update) = write.into_parts();
    /// let in_bulk = UpdateOneModel::builder()
    ///     .namespace(invoices.namespace())
    ///     .filter(filter)
    ///     .update(update)
    ///     .build();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Nothing can be inserted into the update afterwards, so no later line can replace the `$set` that stores the
    /// token:
    ///
    /// ```compile_fail
    /// # use mongo_lease::mongodb::bson::doc;
    /// # let token = mongo_lease::Token::from_u64(1);
    /// let write = token.fenced_write("fence", doc! { "_id": 42 }, doc! { "$inc": { "total": 1 } })?;
    /// let (filter, mut update) = write.into_parts();
    /// update.insert("$set", doc! { "state": "sent" }); // no such method
    /// # Ok::<(), mongo_lease::Error>(())
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (Document, UpdateModifications) {
        (self.fence.filter(self.filter), self.update)
    }

    /// The token in a document that refuses older ones, if there is one.
    fn token_in(&self, document: &Document) -> Option<Token> {
        let path = self.fence.bound();
        let mut parts = path.split('.');
        let last = parts.next_back()?;
        let parent = parts.try_fold(document, |document, part| document.get_document(part).ok())?;
        parent.get_timestamp(last).ok().map(Token::from)
    }
}

/// The outcome of a fenced write.
#[must_use = "a write that was refused has changed nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fenced {
    /// The write is done, and the token is stored in the document.
    Applied,
    /// A document matches the filter, and its fence refuses the token: it has seen a newer one. The caller is a former
    /// holder, unless `seen` is `None`. Nothing was written.
    #[non_exhaustive]
    Refused {
        /// The token in the document when it was read; `None` for a value of another type, which refuses every write
        /// until somebody removes it.
        seen: Option<Token>,
    },
    /// No document matches the filter. Nothing was written.
    NoSuchDocument,
}

impl Fenced {
    /// Whether the write is done.
    #[must_use]
    pub fn is_applied(self) -> bool {
        self == Fenced::Applied
    }
}
