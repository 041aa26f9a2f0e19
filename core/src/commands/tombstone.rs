//! Tombstone: ends a lease, and leaves an expired document for the server's TTL monitor to remove.
//!
//! A tombstone is equivalent to no document. It has no grant, no queue, and a value that no holder has, so a late
//! renewal or release matches nothing. Its expiry is in 1970, so it is free at once by every clock, even one that is
//! behind: a client's, or the next primary's.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::format;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::rules::tombstone::TombstoneValues;

use super::release::ReleaseTarget;
use super::reply::{self, Ended, RefusedStatements};
use super::{majority, simple_collation};
use crate::commands::Command;
use crate::commands::DecodeError;

/// The expiry of a tombstone.
const EXPIRED_AT: DateTime = DateTime::from_millis(0);

/// Makes tombstones of lease documents, each only where the target is the only holder and the queue has no entry, live
/// or expired. The effect on each is `spec::tombstone`.
#[derive(Clone, Debug)]
pub struct Tombstone {
    /// The grants to end.
    pub targets: Vec<ReleaseTarget>,
    /// A value for each document, which no holder has.
    pub values: TombstoneValues,
}

/// The outcome of a [`Tombstone`] command.
#[derive(Clone, Debug)]
pub struct Tombstoned {
    /// The leases that were released.
    pub ended: Ended,
    /// The positions of the targets whose tombstones another program's index or validator refused, and the first
    /// refusal. These leases are unchanged.
    pub refused: Option<RefusedStatements>,
}

impl Command for Tombstone {
    type Reply = Tombstoned;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let tombstone = |(place, target): (usize, &ReleaseTarget)| {
            Bson::from(doc! {
                "q": target.filter_alone(),
                // A whole document and not a pipeline: it replaces all other fields too.
                "u": {
                    format::NAME: &target.name,
                    format::VALUE: self.values.of_statement(place),
                    format::EXPIRES_AT: EXPIRED_AT,
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

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Tombstoned, DecodeError> {
        let refused = reply::refused_statements(reply, self.targets.len())?;
        Ok(Tombstoned { ended: reply::decode_counted(reply)?, refused })
    }
}
