//! Commands that ask about the server. A store in memory has everything that leases need.

use crate::bson::{Bson, doc};
use crate::rules::time::Instant;

use super::InMemory;
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, FindOtherFormat, FoundCollection, FoundIndex, ListIndexes,
    LookAtCollection,
};
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping, Topology};
use crate::memory::{Collection, MemoryCommand};
use crate::schema::SPECS;

/// A command whose reply does not depend on the leases.
macro_rules! always {
    ($command:ty, $reply:ty, $kind:expr, $answer:expr) => {
        impl InMemory<$reply> for $command {
            fn kind(&self) -> Option<MemoryCommand> {
                $kind
            }

            fn carry_out(&self, _leases: &mut Collection<'_>, _sent: Instant) -> $reply {
                $answer
            }
        }
    };
}

always!(Hello, Topology, Some(MemoryCommand::Read), Topology { has_oplog: true, is_router: false });
always!(Ping, (), None, ());
always!(DryRun, (), None, ());
// Without an index nothing is gained by an insert without a look-up.
always!(IsHintUsed, bool, None, false);
// All clients of a store in memory are of one program.
always!(FindOtherFormat, Option<&'static str>, None, None);
always!(CreateIndex, (), None, ());
always!(CountDuplicates, i64, None, 0);
always!(
    LookAtCollection,
    Option<FoundCollection>,
    None,
    Some(FoundCollection { kind: "collection".to_owned(), is_capped: false })
);
always!(ListIndexes, Vec<FoundIndex>, None, indexes());

fn indexes() -> Vec<FoundIndex> {
    let found = |spec: crate::schema::IndexSpec| FoundIndex {
        name: spec.name.to_owned(),
        key: doc! { spec.key: 1 },
        is_unique: spec.unique,
        expire_after_seconds: spec.expire_after_seconds.map(Bson::Int64),
        ..FoundIndex::default()
    };
    SPECS.into_iter().map(found).collect()
}
