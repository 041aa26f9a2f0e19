//! The journal of a store's writes, as a server's oplog: for checkers of histories.

use std::sync::Arc;

use mongo_lease_core::bson::Timestamp;
use mongo_lease_core::texts::LeaseDocument;

/// One write to one document.
#[derive(Clone, Debug)]
pub struct Write {
    /// The collection of the document.
    pub collection: String,
    /// The name of its lease.
    pub name: String,
    /// The document before; `None` if there was none.
    pub before: Option<Arc<LeaseDocument>>,
    /// The document after, with what the write announces; `None` if it was deleted.
    pub after: Option<Arc<LeaseDocument>>,
    /// The place of the write in the oplog.
    pub at: Timestamp,
    /// The server's clock at the write.
    pub now_ms: i64,
    /// The date by which the command decided: an earlier one, where it has waited for a lock.
    pub dated_ms: i64,
}

/// The writes so far, if they are kept.
#[derive(Debug, Default)]
pub(super) struct Journal(Option<Vec<Write>>);

impl Journal {
    pub(super) fn keep(&mut self) {
        self.0.get_or_insert_default();
    }

    /// How many writes are kept.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }

    /// Gives the writes from this one on this date.
    pub(super) fn date(&mut self, from: usize, now_ms: i64) {
        for write in self.0.iter_mut().flat_map(|writes| writes.iter_mut().skip(from)) {
            write.now_ms = now_ms;
        }
    }

    /// Forgets the writes behind the first ones.
    pub(super) fn truncate(&mut self, length: usize) {
        self.0.iter_mut().for_each(|writes| writes.truncate(length));
    }

    pub(super) fn take(&mut self) -> Vec<Write> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes a write. `write` is called only where the writes are kept.
    pub(super) fn note(&mut self, write: impl FnOnce() -> Write) {
        if let Some(writes) = &mut self.0 {
            writes.push(write());
        }
    }
}
