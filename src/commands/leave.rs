//! Leave: a lease ends, and its document stays as that of a lease which nobody has, for the server's TTL monitor.
//!
//! For everybody who looks at a name it is the same as no document: it has no grant, no queue, and a value that is
//! nobody's, so a renewal or a release that comes late matches nothing. It has expired at the beginning of time, so it
//! is free at once by every clock: a client's that is behind, and that of the next primary.

use mongodb::bson::{Bson, DateTime, Document, doc};

use super::release::{self, Deleted, Target};
use super::{majority, simple_collation};
use crate::error::Cause;
use crate::rules::time::Instant;
use crate::runner::{Command, Lane};
use crate::schema;

/// When a lease whose document was left behind has expired.
const EXPIRED_AT: DateTime = DateTime::from_millis(0);

/// Leaves leases' documents behind, each only where its holder is the one who is named, and nobody stands in line, dead
/// or alive.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    pub(crate) collection: String,
    pub(crate) targets: Vec<Target>,
}

impl Command for Leave {
    type Reply = Deleted;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, _sent: Instant) -> Document {
        let leave = |target: &Target| {
            Bson::from(doc! {
                "q": target.filter_without_queue(),
                // No pipeline: a whole document in its place, and whatever else stood there goes with it.
                "u": {
                    schema::NAME: &target.name,
                    schema::VALUE: "",
                    schema::EXPIRES_AT: EXPIRED_AT,
                },
                "collation": simple_collation(),
            })
        };
        doc! {
            "update": &self.collection,
            "updates": self.targets.iter().map(leave).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Deleted, Cause> {
        release::decode_ended(reply)
    }
}
