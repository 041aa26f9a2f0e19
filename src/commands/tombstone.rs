//! Tombstone: a lease ends, and its document stays as that of a lease which nobody has, for the server's TTL monitor.
//!
//! For all who look at a name it is the same as no document: it has no grant, no queue, and a value that is nobody's,
//! so a renewal or a release that comes late matches nothing. It has expired at the beginning of time, so it is free at
//! once by every clock: a client's that is behind, and that of the next primary.

use mongodb::bson::{Bson, DateTime, Document, doc};

use super::release::ReleaseTarget;
use super::reply::{self, Deleted, RefusedStatements};
use super::{majority, simple_collation};
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::rules::tombstone::TombstoneValues;
use crate::schema;

/// When a lease that is a tombstone has expired.
const EXPIRED_AT: DateTime = DateTime::from_millis(0);

/// Makes tombstones of leases' documents, each only where its holder is the one who is named, and nobody stands in
/// line, dead or alive.
#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    pub(crate) targets: Vec<ReleaseTarget>,
    pub(crate) values: TombstoneValues,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Tombstoned {
    /// The leases that ended so.
    pub(crate) ended: Deleted,
    /// The places of the targets whose tombstones an index or a validator of somebody else's refused, and the first
    /// refusal: these leases are as they were.
    pub(crate) refused: Option<RefusedStatements>,
}

impl Command for Tombstone {
    type Reply = Tombstoned;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let tombstone = |(place, target): (usize, &ReleaseTarget)| {
            Bson::from(doc! {
                "q": target.filter_without_queue(),
                // No pipeline: a whole document in its place, and whatever else stood there goes with it.
                "u": {
                    schema::NAME: &target.name,
                    schema::VALUE: self.values.of_statement(place),
                    schema::EXPIRES_AT: EXPIRED_AT,
                },
                "collation": simple_collation(),
            })
        };
        doc! {
            "update": collection,
            "updates": self.targets.iter().enumerate().map(tombstone).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Tombstoned, Cause> {
        let refused = reply::refused_statements(reply, self.targets.len())?;
        Ok(Tombstoned { ended: reply::decode_counted(reply)?, refused })
    }
}
