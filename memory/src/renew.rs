//! Renewals and heartbeats in memory. They count documents, as a server does.

use super::*;

fn key(key: &GrantKey) -> spec::OwnGrant<Texts> {
    spec::OwnGrant { value: key.value().to_owned(), id: key.grant_id().into() }
}

impl InMemory for RenewMany {
    const KIND: Option<CommandKind> = Some(CommandKind::Renew);

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Matched {
        let mut matched = 0;
        for grant in &self.grants {
            let (key, lasts) = (key(&grant.key), millis_up(grant.lasts));
            matched += i64::from(leases.apply(grant.key.name(), |found, now| {
                spec::renew(found, &key, lasts, now, echo(sent), &built())
            }));
        }
        Matched { sent, matched }
    }
}

impl InMemory for RenewHolders {
    const KIND: Option<CommandKind> = Some(CommandKind::Renew);

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Matched {
        let mut by_name: BTreeMap<&str, Vec<(GrantId, i64)>> = BTreeMap::new();
        for grant in &self.grants {
            let renewed = (grant.key.grant_id().into(), millis_up(grant.lasts));
            by_name.entry(grant.key.name()).or_default().push(renewed);
        }
        let mut matched = 0;
        for (name, grants) in by_name {
            matched += i64::from(leases.apply(name, |found, now| {
                spec::renew_holders(found, &grants, now, echo(sent), &built())
            }));
        }
        Matched { sent, matched }
    }
}

impl InMemory for Resume {
    const KIND: Option<CommandKind> = Some(CommandKind::Renew);

    fn carry_out(
        &self,
        leases: &mut Collection<'_>,
        sent: Instant,
    ) -> Option<(Instant, LeaseSnapshot)> {
        let (name, key, terms) = (self.key.name(), key(&self.key), self.terms());
        let is_there = leases.apply(name, |found, now| {
            let fresh = self.fresh_id.clone();
            spec::resume(found, &key, fresh, terms, now, echo(sent), &built())
        });
        let mut seen = snapshot::read(leases, name).filter(|_| is_there)?;
        seen.ttl_ms = leases.get(name)?.grant.as_ref().map(|grant| grant.ttl);
        Some((sent, seen))
    }
}

/// Never sent here: the store has an oplog.
impl InMemory for StandaloneToken {
    const KIND: Option<CommandKind> = Some(CommandKind::Renew);

    fn carry_out(&self, _leases: &mut Collection<'_>, _sent: Instant) -> Option<Timestamp> {
        None
    }
}

impl InMemory for Heartbeat {
    const KIND: Option<CommandKind> = Some(CommandKind::Heartbeat);

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Matched {
        let waiter_ttl = millis_up(self.waiter_ttl);
        let (single, several) = by_document(&self.entries);
        let documents = single.into_iter().map(|entry| vec![entry]).chain(several.into_values());
        let mut matched = 0;
        for entries in documents {
            let is_complete = entries.iter().all(|entry| find::is_there(leases, entry));
            let mut are_there = is_complete;
            for QueueEntry { name, value } in entries.into_iter().filter(|_| is_complete) {
                are_there &= leases.apply(name, |found, now| {
                    spec::heartbeat(found, value, now, echo(sent), waiter_ttl, &built())
                });
            }
            matched += i64::from(are_there);
        }
        Matched { sent, matched }
    }
}
