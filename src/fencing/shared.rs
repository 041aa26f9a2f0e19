//! Fenced writes to a resource that readers and writers touch, or holders of permits.

use mongodb::bson::Document;
use mongodb::options::UpdateModifications;

use super::FencedWrite;
use super::kind::FenceKind;
use crate::error::Result;
use crate::token::Token;

impl Token {
    /// Makes a write of an exclusive holder to a resource that shared holders write to as well.
    ///
    /// It stores this token in `field`, as a document `{seen, exclusive}`, and is refused after every newer token, of
    /// an exclusive holder or of a shared one. Shared holders write by
    /// [`fenced_shared_write`](Token::fenced_shared_write), which says what the fence guarantees. It is like
    /// [`fenced_write`](Token::fenced_write) in everything else.
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
    /// # What it guarantees
    /// - No write of a shared holder is applied after that of a later exclusive holder, and none of an exclusive holder
    ///   after that of a later holder of either kind.
    /// - Holders that may hold at the same time do not refuse each other.
    ///
    /// # What it does not
    /// - **It does not enforce the limit of a semaphore.** A holder whose permit has ended is not refused because
    ///   others have its permit now: nothing in a token tells how many there are. It is refused after an exclusive
    ///   holder only.
    /// - Every write to the document has to be fenced by the same field, and by one of these two: an unfenced write is
    ///   not refused. A document with the token of [`fenced_write`](Token::fenced_write) in the field refuses every
    ///   write: use a field of its own.
    ///
    /// A document without the field has seen no token. It is like [`fenced_write`](Token::fenced_write) in everything
    /// else.
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
