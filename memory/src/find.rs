//! Reads in memory.

use super::*;
use crate::pattern::matches;

impl InMemory for FindLeases {
    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        self.names.iter().filter_map(|name| snapshot::read(leases, name)).collect()
    }
}

impl InMemory for GetLease {
    const KIND: Option<CommandKind> = Some(CommandKind::Read);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        let found = leases.get(&self.name).into_iter();
        found.map(|it| snapshot::with_holders(&self.name, it, leases.now_ms())).collect()
    }
}

impl InMemory for FindGrants {
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Vec<LeaseSnapshot> {
        self.0.carry_out(leases, sent)
    }
}

impl InMemory for FindApplied {
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Vec<LeaseSnapshot> {
        self.0.carry_out(leases, sent)
    }
}

impl InMemory for Page {
    const KIND: Option<CommandKind> = Some(CommandKind::Read);

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<LeaseSnapshot> {
        let is_of = |info: &LeaseInfo, owner: &str| {
            let of_holders = info.holders.iter().map(|holder| holder.owner.as_deref());
            of_holders.chain([info.owner.as_deref()]).any(|found| found == Some(owner))
        };
        leases
            .after(self.after.as_deref())
            .filter(|(name, _)| matches(&self.pattern, name))
            .map(|(name, document)| snapshot::with_holders(name, document, leases.now_ms()))
            .filter(|seen| self.owner.as_deref().is_none_or(|owner| is_of(&seen.info, owner)))
            .take(usize::try_from(self.limit).unwrap_or(usize::MAX))
            .collect()
    }
}

impl InMemory for FindHolders {
    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<SharedSnapshot> {
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for grant in &self.grants {
            wanted.entry(grant.name()).or_default().insert(grant.grant_id());
        }
        let found = |(name, ids): (&str, BTreeSet<&str>)| {
            with_holders_of(leases, name, |grant| ids.contains(grant.id.as_str()))
        };
        wanted.into_iter().filter_map(found).collect()
    }
}

/// A lease with those of its holders that are wanted.
fn with_holders_of(
    leases: &Collection<'_>,
    name: &str,
    is_wanted: impl Fn(&spec::Grant<Texts>) -> bool,
) -> Option<SharedSnapshot> {
    let own = leases.get(name)?.sharers().into_iter().filter(|holder| is_wanted(&holder.grant));
    let seen = own.map(|Holder { grant, .. }| SeenHolder {
        value: Some(grant.value),
        id: Some(grant.id),
        sent: Some(grant.sent),
        acquired_at: DateTime::from_timestamp_millis(grant.acquired_at),
    });
    Some(SharedSnapshot { lease: snapshot::read(leases, name)?, holders: seen.collect() })
}

impl InMemory for FindWritten {
    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Written {
        let found = |(name, values): (&String, &BTreeSet<String>)| {
            with_holders_of(leases, name, |grant| values.contains(&grant.value))
        };
        let found = self.holders.iter().filter_map(found).collect();
        Written { found, until: Some(leases.majority_time()) }
    }
}

impl InMemory for FindEntries {
    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<QueueEntry> {
        self.entries.iter().filter(|entry| is_there(leases, entry)).cloned().collect()
    }
}

pub(crate) fn is_there(leases: &Collection<'_>, entry: &QueueEntry) -> bool {
    let document = leases.get(&entry.name);
    document.is_some_and(|document| document.queue.position(&entry.value).is_some())
}
