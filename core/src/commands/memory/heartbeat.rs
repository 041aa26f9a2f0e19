//! Heartbeats in memory.

use crate::rules::time::{Instant, millis_up};
use crate::spec::{self, AsBuilt};

use super::InMemory;
use crate::commands::echo;
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry, by_document};
use crate::commands::reply::Renewed;
use crate::memory::{Collection, MemoryCommand};

impl InMemory<Renewed> for Heartbeat {
    fn kind(&self) -> Option<MemoryCommand> {
        Some(MemoryCommand::Heartbeat)
    }

    /// Counts documents, as a server does.
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Renewed {
        let life = millis_up(self.life);
        let (single, several) = by_document(&self.entries);
        let documents = single.into_iter().map(|entry| vec![entry]).chain(several.into_values());
        let mut matched = 0;
        for entries in documents {
            let mut are_there = entries.iter().all(|entry| is_there(leases, entry));
            if are_there {
                for QueueEntry { name, value } in entries {
                    are_there &= leases.apply(name, |found, now| {
                        spec::heartbeat(found, value, now, echo(sent), life, &AsBuilt)
                    });
                }
            }
            matched += i64::from(are_there);
        }
        Renewed { sent, matched }
    }
}

fn is_there(leases: &Collection<'_>, entry: &QueueEntry) -> bool {
    let document = leases.get(&entry.name);
    document.is_some_and(|document| document.queue.position(&entry.value).is_some())
}

impl InMemory<Vec<QueueEntry>> for FindEntries {
    fn kind(&self) -> Option<MemoryCommand> {
        None
    }

    fn carry_out(&self, leases: &mut Collection<'_>, _sent: Instant) -> Vec<QueueEntry> {
        self.entries.iter().filter(|entry| is_there(leases, entry)).cloned().collect()
    }
}
