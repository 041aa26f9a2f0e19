use std::ops::Sub;

use mongodb::bson::{Bson, Document};

/// How many commands a server ran, by its own count (`serverStatus`).
///
/// A command counts once, whatever its outcome. The server counts for all clients, and its own queries too: to count
/// the commands of one test, start a server for it. The first retryable write of a session makes the server search for
/// earlier ones, which counts as `find`; a write before the first count takes that out of the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// `findAndModify` commands.
    pub find_and_modify: u64,
    /// `delete` commands.
    pub delete: u64,
    /// `update` commands.
    pub update: u64,
    /// `insert` commands.
    pub insert: u64,
    /// `find` commands.
    pub find: u64,
    /// `getMore` commands.
    pub get_more: u64,
    /// `aggregate` commands; opening a change stream is one.
    pub aggregate: u64,
    /// Documents inserted (`opcounters.insert`).
    pub inserted: u64,
    /// Queries (`opcounters.query`).
    pub queried: u64,
    /// Update statements (`opcounters.update`).
    pub updated: u64,
    /// Delete statements (`opcounters.delete`); the TTL monitor's deletions are not in it.
    pub deleted: u64,
    /// All other commands (`opcounters.command`), those of the driver's monitors among them.
    pub commands: u64,
}

impl CommandCounts {
    /// The difference to an earlier count of the same server.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        self.with_each(earlier, less)
    }

    fn with_each(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            find_and_modify: join(self.find_and_modify, other.find_and_modify),
            delete: join(self.delete, other.delete),
            update: join(self.update, other.update),
            insert: join(self.insert, other.insert),
            find: join(self.find, other.find),
            get_more: join(self.get_more, other.get_more),
            aggregate: join(self.aggregate, other.aggregate),
            inserted: join(self.inserted, other.inserted),
            queried: join(self.queried, other.queried),
            updated: join(self.updated, other.updated),
            deleted: join(self.deleted, other.deleted),
            commands: join(self.commands, other.commands),
        }
    }

    pub(super) fn from_status(status: &Document) -> Self {
        let command = |name| number(status, &["metrics", "commands", name, "total"]);
        let operation = |name| number(status, &["opcounters", name]);
        Self {
            find_and_modify: command("findAndModify"),
            delete: command("delete"),
            update: command("update"),
            insert: command("insert"),
            find: command("find"),
            get_more: command("getMore"),
            aggregate: command("aggregate"),
            inserted: operation("insert"),
            queried: operation("query"),
            updated: operation("update"),
            deleted: operation("delete"),
            commands: operation("command"),
        }
    }
}

impl Sub for CommandCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.since(&earlier)
    }
}

/// A counter which the server leaves out was never raised.
fn number(status: &Document, path: &[&str]) -> u64 {
    let Some((last, folders)) = path.split_last() else {
        return 0;
    };
    let holder = folders.iter().try_fold(status, |holder, name| holder.get_document(name).ok());
    let value = holder.and_then(|holder| holder.get(*last));
    let whole = value.and_then(Bson::as_i64);
    let whole = whole.or_else(|| value.and_then(Bson::as_i32).map(i64::from));
    whole.and_then(|whole| u64::try_from(whole).ok()).unwrap_or(0)
}
