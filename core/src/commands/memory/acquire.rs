//! Acquires in memory: the full form, the fast form, and many of the fast form together.

use std::collections::HashSet;

use crate::rules::churn::FastForm;
use crate::rules::ids::GrantId;
use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt, QueueOptions};

use super::{InMemory, snapshot};
use crate::commands::acquire::{AcquireReply, AcquireRequest, FullAcquire, Granted, Refused};
use crate::commands::echo;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAcquired};
use crate::memory::{Collection, Details, MemoryCommand, Texts};

pub(super) fn request(
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
        details: Details { owner: request.owner.to_string(), metadata: request.metadata.clone() },
    }
}

impl InMemory<AcquireReply> for FullAcquire {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let id = self.request.call_id.grant(self.attempt);
        let request = request(&self.request, id, self.predecessor.clone(), sent);
        let name = &self.request.name;
        let answer = leases.apply(name, |found, now| spec::acquire(found, &request, now, &AsBuilt));
        let info = snapshot::read_or_empty(leases, name).info;
        let token = Some(leases.operation_time());
        match answer {
            spec::AcquireReply::Granted(grant_id) => {
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share: None })
            }
            spec::AcquireReply::Refused { ahead, .. } => {
                let ahead = ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX));
                let server_ms = Some(leases.now_ms());
                AcquireReply::Refused(Refused { sent, info, ahead, at: token, server_ms })
            }
        }
    }
}

impl InMemory<AcquireReply> for FastAcquire {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let request = request(&self.request, self.grant_id(), None, sent);
        let name = &self.request.name;
        leases.apply(name, |found, now| match self.form {
            FastForm::LookUp => (spec::fast_acquire(found, &request, now, &AsBuilt).0, ()),
            FastForm::Insert => (spec::insert(found, &request, now, &AsBuilt).0, ()),
        });
        // As from a server's reply.
        let after = snapshot::read_or_empty(leases, name);
        self.read(after, sent, Some(leases.operation_time()))
    }
}

impl InMemory<FastAcquired> for FastAcquireMany {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    /// A read behind it tells who was granted what, as on a server.
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> FastAcquired {
        for acquire in &self.acquires {
            let _ = acquire.carry_out(leases, sent);
        }
        FastAcquired { sent, at: leases.operation_time(), refused: HashSet::new() }
    }
}
