//! Releases in memory.

use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt};

use super::InMemory;
use crate::commands::release::{
    Delete, End, EndLater, GrantMatch, ReleaseTarget, Tombstone, Tombstoned,
};
use crate::commands::reply::Ended;
use crate::memory::{Collection, LeaseDocument, MemoryCommand, Texts};

fn grant(grant: &GrantMatch) -> spec::GrantMatch<Texts> {
    match grant {
        GrantMatch::Any => spec::GrantMatch::Any,
        GrantMatch::Grant(id) => spec::GrantMatch::Grant(id.clone()),
        GrantMatch::Call { call_id, except } => {
            spec::GrantMatch::Call(call_id.clone(), except.clone())
        }
    }
}

type After = (Option<LeaseDocument>, bool);

/// Applies one effect to each of these leases, and counts those that it changed.
fn each(
    leases: &mut Collection<'_>,
    targets: &[ReleaseTarget],
    mut effect: impl FnMut(
        Option<LeaseDocument>,
        &ReleaseTarget,
        &spec::GrantMatch<Texts>,
        i64,
    ) -> After,
) -> Ended {
    let mut count = 0;
    for target in targets {
        let grant = grant(&target.grant);
        let ended = leases.apply(&target.name, |found, now| effect(found, target, &grant, now));
        count += i64::from(ended);
    }
    Ended { count, at: Some(leases.operation_time()) }
}

impl InMemory<Ended> for Delete {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Ended {
        each(leases, &self.targets, |found, target, grant, _now| {
            spec::delete(found, &target.value, grant, &AsBuilt)
        })
    }
}

impl InMemory<Tombstoned> for Tombstone {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Tombstoned {
        let ended = each(leases, &self.targets, |found, target, grant, _now| {
            spec::tombstone(found, &target.value, grant, &AsBuilt)
        });
        Tombstoned { ended, refused: None }
    }
}

impl InMemory<Ended> for End {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Ended {
        each(leases, &self.targets, |found, target, grant, now| {
            spec::end(found, &target.value, grant, self.scope, now, &AsBuilt)
        })
    }
}

impl InMemory<bool> for EndLater {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> bool {
        let (target, hold_at_least) = (&self.target, millis_up(self.hold_at_least));
        let grant = grant(&target.grant);
        leases.apply(&target.name, |found, now| {
            spec::release_later(found, &target.value, &grant, hold_at_least, now)
        })
    }
}
