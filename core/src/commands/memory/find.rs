//! Reads in memory.

use crate::rules::slots::Lane;
use crate::rules::time::Instant;

use super::{InMemory, snapshot};
use crate::commands::find::{FindGrants, FindLeases, GetLease, Page};
use crate::commands::snapshot::LeaseSnapshot;
use crate::info::LeaseInfo;
use crate::memory::{Collection, MemoryCommand, matches};

impl InMemory<Vec<LeaseSnapshot>> for FindLeases {
    /// A caller asks in the lane of acquires. The other reads belong to another command.
    fn kind(&self) -> Option<MemoryCommand> {
        (self.lane == Lane::Acquire).then_some(MemoryCommand::Read)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        self.names.iter().filter_map(|name| snapshot::read(leases, name)).collect()
    }
}

impl InMemory<Vec<LeaseSnapshot>> for GetLease {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Read)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        let found = leases.get(&self.name).into_iter();
        found.map(|it| snapshot::with_holders(&self.name, it, leases.now_ms())).collect()
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
            .map(|(name, document)| snapshot::with_holders(name, document, now_ms))
            .filter(|seen| self.owner.as_deref().is_none_or(|owner| is_of(&seen.info, owner)))
            .take(limit)
            .collect()
    }
}

fn is_of(info: &LeaseInfo, owner: &str) -> bool {
    let of_holders = info.holders.iter().map(|holder| holder.owner.as_deref());
    of_holders.chain([info.owner.as_deref()]).any(|found| found == Some(owner))
}
