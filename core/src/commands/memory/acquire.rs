//! Acquires in memory: the slow form, the fast forms, and many of a fast form together.

use std::collections::HashSet;

use crate::rules::guesses::FastForm;
use crate::rules::ids::GrantId;
use crate::rules::permits::Permits;
use crate::rules::time::{Instant, from_millis, millis_up};
use crate::spec::{self, AsBuilt};
use chrono::DateTime;

use super::{InMemory, snapshot};
use crate::commands::acquire::{
    AcquireReply, AcquireRequest, Granted, GrantedShare, Refused, SlowAcquire,
};
use crate::commands::echo;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAcquired};
use crate::commands::fast_admit::FastAdmit;
use crate::info::LeaseInfo;
use crate::memory::{Collection, Details, MemoryCommand, Texts};

fn request(
    request: &AcquireRequest,
    id: GrantId,
    predecessor: Option<String>,
    sent: Instant,
) -> spec::AcquireRequest<Texts> {
    spec::AcquireRequest {
        value: request.value.clone(),
        id,
        permits: request.permits,
        ttl: millis_up(request.timing.ttl),
        max_clock_skew: millis_up(request.timing.max_clock_skew),
        sent: echo(sent),
        joins: request.joins,
        predecessor,
        details: Details { owner: request.owner.to_string(), metadata: request.metadata.clone() },
    }
}

/// The lease as a reply to this call shows it.
fn info(leases: &Collection<'_>, request: &AcquireRequest) -> LeaseInfo {
    let name = &request.name;
    if request.permits.is_exclusive() {
        return snapshot::read_or_empty(leases, name).info;
    }
    let info = snapshot::read_with_counts(leases, name).info;
    let sharers = leases.get(name).map(spec::Document::sharers).unwrap_or_default();
    let first = sharers.iter().map(|holder| holder.expires_at).min();
    let left = first.map(|at| from_millis((at - leases.now_ms()).max(0)));
    LeaseInfo { remaining: left.or(info.remaining), ..info }
}

/// The part of the holder with this grant, in shared use.
fn own_share(leases: &Collection<'_>, name: &str, id: &GrantId) -> Option<GrantedShare> {
    let own = leases.get(name)?.sharers().into_iter().find(|holder| holder.grant.id == *id)?;
    let number = |number| u32::try_from(number).ok();
    let (count, limit) = number(own.permits).zip(number(own.limit))?;
    Some(GrantedShare {
        permits: Permits::new(count, limit).ok()?,
        expires_at: DateTime::from_timestamp_millis(own.expires_at),
    })
}

fn granted(
    leases: &Collection<'_>,
    request: &AcquireRequest,
    grant_id: GrantId,
    sent: Instant,
) -> AcquireReply {
    let (info, token) = (info(leases, request), Some(leases.operation_time()));
    let share = own_share(leases, &request.name, &grant_id);
    AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
}

fn refused(
    leases: &Collection<'_>,
    request: &AcquireRequest,
    ahead: Option<usize>,
    sent: Instant,
) -> AcquireReply {
    AcquireReply::Refused(Refused {
        sent,
        info: info(leases, request),
        ahead: ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX)),
        at: Some(leases.operation_time()),
        server_ms: Some(leases.now_ms()),
    })
}

impl InMemory<AcquireReply> for SlowAcquire {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let id = self.request.call_id.grant(self.attempt);
        let request = request(&self.request, id, self.predecessor.clone(), sent);
        let name = &self.request.name;
        match leases.apply(name, |found, now| spec::acquire(found, &request, now, &AsBuilt)) {
            spec::AcquireReply::Granted(id) => granted(leases, &self.request, id, sent),
            spec::AcquireReply::Refused { ahead, .. } => {
                refused(leases, &self.request, ahead, sent)
            }
            spec::AcquireReply::UseSlowForm => AcquireReply::UseSlowForm { maybe_granted: false },
        }
    }
}

impl InMemory<AcquireReply> for FastAdmit {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let id = self.request.call_id.grant(self.attempt);
        let request = request(&self.request, id, None, sent);
        let name = &self.request.name;
        match leases.apply(name, |found, now| spec::fast_admit(found, &request, now, &AsBuilt)) {
            spec::AcquireReply::Granted(id) => granted(leases, &self.request, id, sent),
            spec::AcquireReply::Refused { .. } => refused(leases, &self.request, None, sent),
            spec::AcquireReply::UseSlowForm => AcquireReply::UseSlowForm { maybe_granted: false },
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
