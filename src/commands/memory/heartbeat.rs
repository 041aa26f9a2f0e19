//! Heartbeats in memory.

use std::collections::HashSet;

use super::InMemory;
use crate::commands::echo;
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use crate::commands::reply::Renewed;
use crate::memory::{Collection, MemoryCommand};
use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt};

impl InMemory<Renewed> for Heartbeat {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Heartbeat)
    }

    /// Counts documents, as a server does.
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Renewed {
        let life = millis_up(self.life);
        let mut matched = HashSet::new();
        for QueueEntry { name, value } in &self.entries {
            let is_there = leases.apply(name, |found, now| {
                spec::heartbeat(found, value, now, echo(sent), life, &AsBuilt)
            });
            matched.extend(is_there.then_some(name));
        }
        Renewed { sent, matched: i64::try_from(matched.len()).unwrap_or(i64::MAX) }
    }
}

impl InMemory<Vec<QueueEntry>> for FindEntries {
    fn kind(&self) -> Option<MemoryCommand> {
        None
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<QueueEntry> {
        let is_there = |entry: &&QueueEntry| {
            let document = leases.get(&entry.name);
            document.is_some_and(|document| document.queue.position(&entry.value).is_some())
        };
        self.entries.iter().filter(is_there).cloned().collect()
    }
}
