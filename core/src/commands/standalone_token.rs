//! A fencing token from a server that has no oplog.

use crate::bson::{Document, Timestamp, doc};
use crate::format::{self, grant};
use crate::rules::slots::Lane;
use crate::rules::time::Instant;

use super::renew::GrantKey;
use super::{grant_field, held, majority, simple_collation};
use crate::commands::Command;
use crate::commands::DecodeError;

/// Gets a timestamp from the server's own counter, by writing it into the lease document.
///
/// A standalone server's counter starts from its wall clock: the second, and a number that begins at one in each
/// second. If the clock is set back across a restart, tokens go back. If the server is back within the second in which
/// it ended, tokens may be repeated.
#[derive(Clone, Debug)]
pub struct StandaloneToken {
    /// The grant that has no token yet.
    pub key: GrantKey,
}

impl Command for StandaloneToken {
    /// `None` when this holder has lost the lease.
    type Reply = Option<Timestamp>;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let tick = grant_field(grant::STANDALONE_TOKEN);
        doc! {
            "findAndModify": collection,
            "query": held(self.key.name(), self.key.value(), Some(self.key.grant_id())),
            "update": { "$currentDate": { &tick: { "$type": "timestamp" } } },
            "new": true,
            "fields": { "_id": 0, &tick: 1 },
            "collation": simple_collation(),
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Option<Timestamp>, DecodeError> {
        let Ok(document) = reply.get_document("value") else {
            return Ok(None);
        };
        let tick = document
            .get_document(format::GRANT)
            .and_then(|grant| grant.get_timestamp(grant::STANDALONE_TOKEN))
            .map_err(|_| {
                DecodeError::Reply("the reply to a token update contains no timestamp".to_owned())
            })?;
        Ok(Some(tick))
    }
}
