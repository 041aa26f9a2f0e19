//! Acquires in memory: the full form, the fast form, and many of the fast form together.

use std::collections::HashSet;

use super::{InMemory, snapshot};
use crate::commands::acquire::{AcquireReply, AcquireRequest, FullAcquire, Granted, Refused};
use crate::commands::echo;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAcquired};
use crate::commands::snapshot::LeaseSnapshot;
use crate::memory::{Collection, Details, MemoryCommand, Texts};
use crate::rules::churn::FastForm;
use crate::rules::ids::GrantId;
use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt, FastReply, QueueOptions};

fn request(
    request: &AcquireRequest,
    id: GrantId,
    predecessor: Option<String>,
    sent: Instant,
) -> spec::AcquireRequest<Texts> {
    let joins = request.joins.map(|joins| QueueOptions {
        life: millis_up(joins.life),
        queue_max: usize::try_from(joins.queue_max).unwrap_or(usize::MAX),
    });
    spec::AcquireRequest {
        value: request.value.clone(),
        id,
        ttl: millis_up(request.timing.ttl),
        max_clock_skew: millis_up(request.timing.max_clock_skew),
        sent: echo(sent),
        joins,
        predecessor,
        details: Details { owner: request.owner.clone(), metadata: request.metadata.clone() },
    }
}

/// The document after an acquire, which is there: an acquire is an upsert.
fn after(leases: &Collection<'_>, name: &str) -> LeaseSnapshot {
    snapshot::read(leases, name).unwrap_or_else(|| unreachable!("an upsert leaves a document"))
}

impl InMemory<AcquireReply> for FullAcquire {
    fn kind(&self) -> MemoryCommand {
        MemoryCommand::Acquire
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let id = self.request.call_id.grant(self.attempt);
        let request = request(&self.request, id, self.predecessor.clone(), sent);
        let name = &self.request.name;
        let answer = leases.apply(name, |found, now| spec::acquire(found, &request, now, &AsBuilt));
        let info = after(leases, name).info;
        let token = Some(leases.operation_time());
        match answer {
            spec::AcquireReply::Granted(grant_id) => {
                AcquireReply::Granted(Granted { sent, grant_id, token, info })
            }
            spec::AcquireReply::Refused { ahead, .. } => {
                let ahead = ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX));
                AcquireReply::Refused(Refused { sent, info, ahead, at: token })
            }
        }
    }
}

impl InMemory<AcquireReply> for FastAcquire {
    fn kind(&self) -> MemoryCommand {
        MemoryCommand::Acquire
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let id = self.grant_id();
        let request = request(&self.request, id.clone(), None, sent);
        let name = &self.request.name;
        let answer = leases.apply(name, |found, now| match self.form {
            FastForm::LookUp => spec::fast_acquire(found, &request, now, &AsBuilt),
            FastForm::Insert => match spec::insert(found, &request, now, &AsBuilt) {
                (after, Some(spec::AcquireReply::Granted(_))) => (after, FastReply::Granted),
                (after, Some(spec::AcquireReply::Refused { .. }) | None) => {
                    (after, FastReply::UseFullForm)
                }
            },
        });
        let info = after(leases, name).info;
        let token = Some(leases.operation_time());
        match answer {
            FastReply::Granted => {
                AcquireReply::Granted(Granted { sent, grant_id: id, token, info })
            }
            FastReply::Refused { .. } => {
                AcquireReply::Refused(Refused { sent, info, ahead: None, at: token })
            }
            FastReply::UseFullForm => AcquireReply::UseFullForm { maybe_granted: false },
        }
    }
}

impl InMemory<FastAcquired> for FastAcquireMany {
    fn kind(&self) -> MemoryCommand {
        MemoryCommand::Acquire
    }

    /// A read behind it tells who was granted what, as on a server.
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> FastAcquired {
        for acquire in &self.acquires {
            let _ = acquire.carry_out(leases, sent);
        }
        FastAcquired { sent, at: leases.operation_time(), refused: HashSet::new() }
    }
}
