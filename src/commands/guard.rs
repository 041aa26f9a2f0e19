//! Guard: the fence within the caller's own transaction.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::format::grant;
use mongo_lease_core::rules::time::{Instant, millis_up};
use mongodb::bson::{Document, doc};
use mongodb::{ClientSession, Database};

use super::renew::{GrantKey, held_with_date, prolonged};
use super::reply::{Renewed, decode_update};
use super::{grant_field, one_more_write, simple_collation};
use crate::commands::failure::Cause;

/// Writes to the lease document within a transaction, so that a take-over conflicts with it. Its effect is
/// `spec::guard`.
///
/// It *changes* the document: a read, or a write that changes nothing, would not conflict. It prolongs the lease,
/// because otherwise a take-over that waits for the commit would win right after it. It carries no write concern: the
/// commit has its own.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) key: Arc<GrantKey>,
    /// For how long it prolongs the lease: the holder's own ttl and maximum clock skew.
    pub(crate) lasts: Duration,
}

impl Guard {
    /// Builds the command document.
    pub(crate) fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut guarded = prolonged(millis_up(self.lasts).into(), sent);
        guarded.insert(grant_field(grant::WRITES), one_more_write());
        doc! {
            "update": collection,
            "updates": [{
                "q": held_with_date(&self.key),
                "u": [{ "$set": guarded }],
                "collation": simple_collation(),
            }],
        }
    }

    /// Sends it in the caller's session and from the caller's own future, because a session cannot be lent to a task.
    /// It is the one command that the runner does not run; its deadline is the transaction's.
    pub(crate) async fn run(
        &self,
        database: &Database,
        collection: &str,
        session: &mut ClientSession,
        sent: Instant,
    ) -> mongodb::error::Result<Document> {
        database.run_command(self.build(collection, sent)).session(session).await
    }

    /// Whether this holder still had the lease.
    pub(crate) fn decode(&self, reply: &Document, sent: Instant) -> Result<Renewed, Cause> {
        decode_update(reply, sent)
    }
}
