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
    /// Delete statements (`opcounters.delete`); the TTL monitor's deletions are not in it.
    pub deleted: u64,
}

impl CommandCounts {
    /// The difference to an earlier count of the same server.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            find_and_modify: less(self.find_and_modify, earlier.find_and_modify),
            delete: less(self.delete, earlier.delete),
            update: less(self.update, earlier.update),
            insert: less(self.insert, earlier.insert),
            find: less(self.find, earlier.find),
            get_more: less(self.get_more, earlier.get_more),
            aggregate: less(self.aggregate, earlier.aggregate),
            deleted: less(self.deleted, earlier.deleted),
        }
    }

    pub(super) fn from_status(status: &Document) -> Self {
        let command = |name| number(status, &["metrics", "commands", name, "total"]);
        Self {
            find_and_modify: command("findAndModify"),
            delete: command("delete"),
            update: command("update"),
            insert: command("insert"),
            find: command("find"),
            get_more: command("getMore"),
            aggregate: command("aggregate"),
            deleted: number(status, &["opcounters", "delete"]),
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
