//! Commands that ask about the server. A store in memory has everything that leases need.

use super::*;
use mongo_lease_core::schema::SPECS;

/// A command whose reply does not depend on the leases.
macro_rules! always {
    ($command:ty, $answer:expr) => {
        impl InMemory for $command {
            fn carry_out(&self, _leases: &mut Collection<'_>, _sent: Instant) -> Self::Reply {
                $answer
            }
        }
    };
}

always!(Ping, ());
always!(DryRun, ());
// Without an index nothing is gained by an insert without a look-up.
always!(IsHintUsed, false);
// All clients of a store in memory are of one program.
always!(FindOtherFormat, None);
always!(CreateIndex, ());
always!(CountDuplicates, 0);
always!(
    LookAtCollection,
    Some(FoundCollection { kind: "collection".to_owned(), is_capped: false })
);

impl InMemory for Hello {
    const KIND: Option<CommandKind> = Some(CommandKind::Read);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Topology {
        Topology { has_oplog: true, is_router: false, now_ms: Some(leases.now_ms()) }
    }
}

impl InMemory for ListIndexes {
    fn carry_out(&self, _leases: &mut Collection<'_>, _sent: Instant) -> Vec<FoundIndex> {
        let found = SPECS.into_iter().map(|spec| FoundIndex {
            name: spec.name.to_owned(),
            key: doc! { spec.key: 1 },
            is_unique: spec.unique,
            expire_after_seconds: spec.expire_after_seconds.map(Bson::Int64),
            ..FoundIndex::default()
        });
        found.collect()
    }
}
