//! The commands of a transaction under a lease, beside its [`Guard`].
//!
//! They are no [`Command`]s: the first is sent in the caller's session, and the second is about one.

use super::*;

/// An operation that matches nothing and writes nothing. As the first one of a transaction, it begins that on the
/// server.
///
/// It has no read concern of its own, for a transaction has one.
#[derive(Clone, Copy, Debug)]
pub struct EmptyRead;

impl EmptyRead {
    /// Builds the command document.
    pub fn build(self, collection: &str) -> Document {
        doc! {
            "find": collection,
            // No lease has an empty name.
            "filter": { format::NAME: "" },
            "projection": { "_id": 1 },
            "limit": 1_i64,
            "singleBatch": true,
            "collation": simple_collation(),
        }
    }
}

/// Aborts the transaction of a session that this process has no hold of, and ends its commands.
#[derive(Clone, Debug)]
pub struct KillSession {
    /// The session's id, as the driver has it.
    pub id: Document,
}

impl KillSession {
    /// Builds the command document. A server needs no privilege for a session of the same user.
    pub fn build(&self) -> Document {
        doc! { "killSessions": [self.id.clone()] }
    }
}
