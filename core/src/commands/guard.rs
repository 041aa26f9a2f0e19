//! Guard: the fence within the caller's own transaction.

use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Document, doc};
use crate::format::grant;
use crate::rules::time::{Instant, millis_up};

use super::renew::{GrantKey, held_with_date, prolonged};
use super::reply::{Renewed, decode_update};
use super::{grant_field, one_more_write, simple_collation};
use crate::commands::DecodeError;

/// Writes to the lease document within a transaction, so that a take-over conflicts with it. Its effect is
/// `spec::guard`.
///
/// It *changes* the document: a read, or a write that changes nothing, would not conflict. It prolongs the lease,
/// because otherwise a take-over that waits for the commit would win right after it. It carries no write concern: the
/// commit has its own. It is no [`Command`](super::Command): the caller sends it in the session of the transaction.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The grant.
    pub key: Arc<GrantKey>,
    /// For how long it prolongs the lease: the holder's own ttl and maximum clock skew.
    pub lasts: Duration,
}

impl Guard {
    /// Builds the command document.
    pub fn build(&self, collection: &str, sent: Instant) -> Document {
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

    /// Whether this holder still had the lease.
    pub fn decode(&self, reply: &Document, sent: Instant) -> Result<Renewed, DecodeError> {
        decode_update(reply, sent)
    }
}
