//! Releases in memory.

use super::*;

/// Applies one effect to each of these leases, and counts those that it changed.
fn each(
    leases: &mut Collection<'_>,
    targets: &[ReleaseTarget],
    effect: impl Fn(Option<LeaseDocument>, &ReleaseTarget, i64) -> (Option<LeaseDocument>, bool),
) -> Ended {
    let mut count = 0;
    for target in targets {
        let ended = leases.apply(&target.name, |found, now| effect(found, target, now));
        count += i64::from(ended);
    }
    Ended { count, at: Some(leases.operation_time()) }
}

impl InMemory for Delete {
    const KIND: Option<CommandKind> = Some(CommandKind::Release);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Ended {
        each(leases, &self.targets, |found, target, _now| {
            spec::delete(found, &target.value, &target.grant, &built())
        })
    }
}

impl InMemory for Tombstone {
    const KIND: Option<CommandKind> = Some(CommandKind::Release);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Tombstoned {
        let ended = each(leases, &self.targets, |found, target, _now| {
            spec::tombstone(found, &target.value, &target.grant, &built())
        });
        Tombstoned { ended, refused: None }
    }
}

impl InMemory for End {
    const KIND: Option<CommandKind> = Some(CommandKind::Release);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Ended {
        each(leases, &self.targets, |found, target, now| {
            spec::end(found, &target.value, &target.grant, self.scope, now, &built())
        })
    }
}

impl InMemory for EndLater {
    const KIND: Option<CommandKind> = Some(CommandKind::Release);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> bool {
        let (target, hold_at_least) = (&self.target, millis_up(self.hold_at_least));
        leases.apply(&target.name, |found, now| {
            spec::release_later(found, &target.value, &target.grant, hold_at_least, now)
        })
    }
}
