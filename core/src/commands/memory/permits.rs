//! Permits in memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::ids::GrantId;
use crate::rules::permits::Permits;
use crate::rules::time::{Instant, from_millis, millis_up};
use crate::spec::permits::{self, AdmitRequest, Share};
use crate::spec::{self, AsBuilt, FastReply};
use chrono::DateTime;

use super::acquire::request;
use super::release::grant;
use super::{InMemory, snapshot};
use crate::commands::acquire::{AcquireReply, AcquireRequest, Granted, GrantedShare, Refused};
use crate::commands::echo;
use crate::commands::permits::{
    Admit, DeleteLastHolder, FastAdmit, FindHolders, ReleaseAndAdmit, ReleasePermit, ReleaseScope,
    RenewPermits, SeenHolder, SharedSnapshot,
};
use crate::commands::renew::GrantKey;
use crate::commands::reply::{Deleted, Renewed};
use crate::info::LeaseInfo;
use crate::memory::{Collection, MemoryCommand, Texts};

fn admit_request(
    acquire: &AcquireRequest,
    id: GrantId,
    permits: Permits,
    sent: Instant,
) -> AdmitRequest<Texts> {
    let share = Share { permits: permits.count().into(), limit: permits.limit().into() };
    let call = acquire.call_id.clone();
    AdmitRequest { acquire: request(acquire, id, None, sent), call, share }
}

/// The lease as a reply shows it: of several holders, with the time of the first to expire.
fn info(leases: &Collection<'_>, name: &str) -> LeaseInfo {
    let info = snapshot::read_with_counts(leases, name).info;
    let sharers = leases.get(name).map(spec::Document::sharers).unwrap_or_default();
    let first = sharers.iter().map(|holder| holder.expires_at).min();
    let left = first.map(|at| from_millis((at - leases.now_ms()).max(0)));
    LeaseInfo { remaining: left.or(info.remaining), ..info }
}

/// The part of the holder with this grant.
fn own_share(leases: &Collection<'_>, name: &str, id: &GrantId) -> Option<GrantedShare> {
    let own = leases.get(name)?.sharers().into_iter().find(|holder| holder.id == *id)?;
    let number = |number| u32::try_from(number).ok();
    let (count, limit) = number(own.share.permits).zip(number(own.share.limit))?;
    Some(GrantedShare {
        permits: Permits::new(count, limit).ok()?,
        expires_at: DateTime::from_timestamp_millis(own.expires_at),
    })
}

impl InMemory<AcquireReply> for Admit {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let id = self.request.call_id.grant(self.attempt);
        let request = admit_request(&self.request, id, self.permits, sent);
        let name = &self.request.name;
        let answer =
            leases.apply(name, |found, now| permits::admit(found, &request, now, &AsBuilt));
        let token = Some(leases.operation_time());
        match answer {
            spec::AcquireReply::Granted(grant_id) => {
                let (info, share) = (info(leases, name), own_share(leases, name, &grant_id));
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
            }
            spec::AcquireReply::Refused { ahead, .. } => {
                let ahead = ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX));
                let info = info(leases, name);
                let server_ms = Some(leases.now_ms());
                AcquireReply::Refused(Refused { sent, info, ahead, at: token, server_ms })
            }
        }
    }
}

impl InMemory<AcquireReply> for FastAdmit {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Acquire)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let grant_id = self.request.call_id.grant(self.attempt);
        let request = admit_request(&self.request, grant_id.clone(), self.permits, sent);
        let name = &self.request.name;
        let reply =
            leases.apply(name, |found, now| permits::fast_admit(found, &request, now, &AsBuilt));
        let token = Some(leases.operation_time());
        match reply {
            FastReply::Granted => {
                let (info, share) = (info(leases, name), own_share(leases, name, &grant_id));
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
            }
            FastReply::Refused { .. } => {
                let info = info(leases, name);
                let server_ms = Some(leases.now_ms());
                AcquireReply::Refused(Refused { sent, info, ahead: None, at: token, server_ms })
            }
            FastReply::UseFullForm => AcquireReply::UseFullForm { maybe_granted: false },
        }
    }
}

impl InMemory<Deleted> for ReleaseAndAdmit {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Deleted {
        let scope = match self.scope {
            ReleaseScope::Grant => permits::ReleaseScope::Grant,
            ReleaseScope::GrantOrEntry => permits::ReleaseScope::GrantOrEntry,
        };
        let (value, grant) = (&self.target.value, grant(&self.target.grant));
        let is_ended = leases.apply(&self.target.name, |found, now| {
            permits::release_and_admit(found, value, &grant, scope, now, &AsBuilt)
        });
        Deleted { count: is_ended.into(), at: Some(leases.operation_time()) }
    }
}

fn spec_key(key: &GrantKey) -> spec::GrantKey<Texts> {
    spec::GrantKey { value: key.value().to_owned(), id: key.grant_id().into() }
}

impl InMemory<Deleted> for ReleasePermit {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Deleted {
        let key = spec_key(&self.key);
        let is_ended =
            leases.apply(self.key.name(), |found, _now| permits::release_permit(found, &key));
        Deleted { count: is_ended.into(), at: Some(leases.operation_time()) }
    }
}

impl InMemory<Deleted> for DeleteLastHolder {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Release)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Deleted {
        let key = spec_key(&self.key);
        let is_ended =
            leases.apply(self.key.name(), |found, _now| permits::delete_last_holder(found, &key));
        Deleted { count: is_ended.into(), at: Some(leases.operation_time()) }
    }
}

impl InMemory<Renewed> for RenewPermits {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Renew)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Renewed {
        let mut by_name: BTreeMap<&str, Vec<(GrantId, i64)>> = BTreeMap::new();
        for grant in &self.grants {
            let renewed = (grant.key.grant_id().into(), millis_up(grant.lasts));
            by_name.entry(grant.key.name()).or_default().push(renewed);
        }
        let mut matched = 0;
        for (name, grants) in by_name {
            let are_there = leases.apply(name, |found, now| {
                permits::renew_permits(found, &grants, now, echo(sent), &AsBuilt)
            });
            matched += i64::from(are_there);
        }
        Renewed { sent, matched }
    }
}

impl InMemory<Vec<SharedSnapshot>> for FindHolders {
    fn kind(&self) -> Option<MemoryCommand> {
        None
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<SharedSnapshot> {
        let seen = |holder: permits::Holder<Texts>| SeenHolder {
            value: Some(holder.value),
            id: Some(holder.id),
            sent: Some(holder.sent),
        };
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for grant in &self.grants {
            wanted.entry(grant.name()).or_default().insert(grant.grant_id());
        }
        let found = |(name, ids): (&str, BTreeSet<&str>)| {
            let mut holders = leases.get(name)?.sharers();
            holders.retain(|holder| ids.contains(holder.id.as_str()));
            let holders = holders.into_iter().map(seen).collect();
            Some(SharedSnapshot { lease: snapshot::read(leases, name)?, holders })
        };
        wanted.into_iter().filter_map(found).collect()
    }
}
