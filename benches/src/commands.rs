//! The commands that reach a server, by its own counters.

use std::collections::BTreeMap;

use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease_measure::Outcome;

use crate::setup::{Setup, count};

/// The monitoring of the driver, and the commands of the benchmark itself.
const NOT_COUNTED: [&str; 6] =
    ["hello", "isMaster", "serverStatus", "endSessions", "configureFailPoint", "createIndexes"];

/// How often each command was sent to a server.
pub(crate) struct Commands(BTreeMap<String, u64>);

impl Commands {
    /// So far, to this server.
    pub(crate) async fn to(setup: &Setup) -> Outcome<Commands> {
        let status = setup.server.admin(doc! { "serverStatus": 1 }).await;
        let commands = status.get_document("metrics")?.get_document("commands")?;
        let total = |(name, counts): (&String, &Bson)| {
            counts.as_document().map(|counts| (name.clone(), count(counts, "total")))
        };
        let all = commands.iter().filter_map(total);
        Ok(Commands(all.filter(|(name, _)| !NOT_COUNTED.contains(&&**name)).collect()))
    }

    /// Those that were sent after these.
    pub(crate) fn since(&self, before: &Commands) -> Commands {
        let more = |(name, count): (&String, &u64)| {
            let more = count - before.0.get(name).copied().unwrap_or(0);
            (more > 0).then(|| (name.clone(), more))
        };
        Commands(self.0.iter().filter_map(more).collect())
    }

    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        self.0.values().sum()
    }
}

impl std::fmt::Display for Commands {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each: Vec<String> =
            self.0.iter().map(|(name, count)| format!("{count} {name}")).collect();
        formatter.write_str(if each.is_empty() { "nothing" } else { "" })?;
        formatter.write_str(&each.join(", "))
    }
}
