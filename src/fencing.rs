//! Guarded writes: the fence where there is no transaction.

use mongodb::bson::{Bson, Document, doc};

use crate::rules::token::Token;

impl Token {
    /// The part of a filter that lets a write through only if the document has seen no newer token in `field`.
    ///
    /// A document without the field has seen none. Put it beside the rest of the filter, and
    /// [`fence_update`](Token::fence_update) into the same update; a write that matches nothing was refused. Do not
    /// let such a write upsert: where the filter refuses, it would insert a second document.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use mongo_lease::mongodb::{self, bson::{Document, doc}};
    /// # async fn example(
    /// #     invoices: mongodb::Collection<Document>, lease: mongo_lease::Lease,
    /// # ) -> mongo_lease::Result<()> {
    /// let token = lease.token()?;
    /// let mut filter = token.fence_filter("fence");
    /// filter.insert("_id", 42);
    /// let mut update = token.fence_update("fence");
    /// update.insert("$inc", doc! { "total": 1 });
    ///
    /// let written = invoices.update_one(filter, update).await?;
    /// if written.matched_count == 0 {
    ///     // A newer holder has written: this one has lost its lease, and did not know it.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fence_filter(self, field: &str) -> Document {
        let not_newer = doc! { field: { "$lte": Bson::from(self) } };
        doc! { "$or": [not_newer, { field: Bson::Null }] }
    }

    /// The part of an update that leaves this token in `field`, for the writes that follow.
    #[must_use]
    pub fn fence_update(self, field: &str) -> Document {
        doc! { "$set": { field: Bson::from(self) } }
    }
}
