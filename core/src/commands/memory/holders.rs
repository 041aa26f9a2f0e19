//! Holders in shared use, in memory: their renewals, and reads of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::ids::GrantId;
use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt};

use super::{InMemory, snapshot};
use crate::commands::echo;
use crate::commands::find_holders::{FindHolders, SeenHolder, SharedSnapshot};
use crate::commands::renew_holders::RenewHolders;
use crate::commands::reply::Renewed;
use crate::memory::{Collection, MemoryCommand, Texts};

impl InMemory<Renewed> for RenewHolders {
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
                spec::renew_holders(found, &grants, now, echo(sent), &AsBuilt)
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
        let seen = |holder: spec::Holder<Texts>| SeenHolder {
            value: Some(holder.grant.value),
            id: Some(holder.grant.id),
            sent: Some(holder.grant.sent),
        };
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for grant in &self.grants {
            wanted.entry(grant.name()).or_default().insert(grant.grant_id());
        }
        let found = |(name, ids): (&str, BTreeSet<&str>)| {
            let mut holders = leases.get(name)?.sharers();
            holders.retain(|holder| ids.contains(holder.grant.id.as_str()));
            let holders = holders.into_iter().map(seen).collect();
            Some(SharedSnapshot { lease: snapshot::read(leases, name)?, holders })
        };
        wanted.into_iter().filter_map(found).collect()
    }
}
