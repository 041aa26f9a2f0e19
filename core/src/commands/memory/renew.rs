//! Renewals in memory.

use crate::bson::Timestamp;
use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt};

use super::{InMemory, snapshot};
use crate::commands::echo;
use crate::commands::renew::{GrantKey, RenewMany, Resume, StandaloneToken};
use crate::commands::reply::Renewed;
use crate::commands::snapshot::LeaseSnapshot;
use crate::memory::{Collection, MemoryCommand, Texts};

fn key(key: &GrantKey) -> spec::GrantKey<Texts> {
    spec::GrantKey { value: key.value().to_owned(), id: key.grant_id().into() }
}

impl InMemory<Renewed> for RenewMany {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Renew)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Renewed {
        let mut matched = 0;
        for grant in &self.grants {
            let (key, lasts) = (key(&grant.key), millis_up(grant.lasts));
            let is_there = leases.apply(grant.key.name(), |found, now| {
                spec::renew(found, &key, lasts, now, echo(sent), &AsBuilt)
            });
            matched += i64::from(is_there);
        }
        Renewed { sent, matched }
    }
}

impl InMemory<Option<(Instant, LeaseSnapshot)>> for Resume {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Renew)
    }

    fn carry_out(
        &self,
        leases: &mut Collection<'_>,
        sent: Instant,
    ) -> Option<(Instant, LeaseSnapshot)> {
        let (key, terms) = (key(&self.key), self.terms());
        let is_there = leases.apply(self.key.name(), |found, now| {
            let fresh = self.fresh_id.clone();
            spec::resume(found, &key, fresh, terms, now, echo(sent), &AsBuilt)
        });
        let mut seen = snapshot::read(leases, self.key.name()).filter(|_| is_there)?;
        let grant = leases.get(self.key.name()).and_then(|document| document.grant.as_ref());
        seen.ttl_ms = grant.map(|grant| grant.ttl);
        Some((sent, seen))
    }
}

/// Never sent here: the store has an oplog.
impl InMemory<Option<Timestamp>> for StandaloneToken {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Renew)
    }

    fn carry_out(&self, _leases: &mut Collection<'_>, _sent: Instant) -> Option<Timestamp> {
        None
    }
}
