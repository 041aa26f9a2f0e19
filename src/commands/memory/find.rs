//! Reads in memory.

use super::{InMemory, snapshot};
use crate::commands::find::{FindGrants, FindLeases, Page};
use crate::commands::snapshot::LeaseSnapshot;
use crate::memory::{Collection, MemoryCommand, matches};
use crate::rules::slots::Lane;
use crate::rules::time::Instant;

impl InMemory<Vec<LeaseSnapshot>> for FindLeases {
    /// A caller asks in the lane of acquires. The other reads belong to another command.
    fn kind(&self) -> Option<MemoryCommand> {
        (self.lane == Lane::Acquire).then_some(MemoryCommand::Read)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        self.names.iter().filter_map(|name| snapshot::read(leases, name)).collect()
    }
}

impl InMemory<Vec<LeaseSnapshot>> for FindGrants {
    fn kind(&self) -> Option<MemoryCommand> {
        None
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Vec<LeaseSnapshot> {
        self.0.carry_out(leases, sent)
    }
}

impl InMemory<Vec<LeaseSnapshot>> for Page {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Read)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        let now_ms = leases.now_ms();
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        leases
            .after(self.after.as_deref())
            .filter(|(name, _)| matches(&self.pattern, name))
            .map(|(name, document)| snapshot::snapshot(name, document, now_ms))
            .filter(|seen| self.owner.is_none() || seen.info.owner == self.owner)
            .take(limit)
            .collect()
    }
}
