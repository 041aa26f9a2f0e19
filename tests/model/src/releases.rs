//! Releases: the commands that end a grant, and the one that follows where a command matches nothing.

use mongo_lease_core::spec::{self, EndScope, Protections};

use crate::server::{Document, GrantMatch, Value};

/// A command that ends a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Ending {
    /// Deletes the document of a holder that is alone, or makes a tombstone of it.
    Delete,
    /// Ends the grant, and admits waiters.
    End(EndScope),
}

impl Ending {
    /// The last command of every release but that of a call which may only be in the queue.
    const ANYWHERE: Ending = Ending::End(EndScope::Anywhere);
    /// The only command of a call that may hold the lease or be in the queue.
    pub(crate) const HELD_OR_QUEUED: Ending = Ending::End(EndScope::HeldOrQueued);

    /// The first command of a release. A promotion implies a queue, so others may wait or hold as well.
    pub(crate) fn first(is_beside_others: bool) -> Ending {
        if is_beside_others { Ending::End(EndScope::BesideOthers) } else { Ending::Delete }
    }

    /// The command that follows where this one has matched nothing.
    pub(crate) fn next(self) -> Option<Ending> {
        match self {
            Ending::End(EndScope::BesideOthers) => Some(Ending::Delete),
            Ending::Delete => Some(Ending::ANYWHERE),
            Ending::End(EndScope::Anywhere | EndScope::HeldOrQueued) => None,
        }
    }

    /// Carries it out, and says whether it matched.
    pub(crate) fn carry_out(
        self,
        found: Option<Document>,
        (value, which): (Value, GrantMatch),
        tombstones: bool,
        now: i64,
        protections: &impl Protections,
    ) -> (Option<Document>, bool) {
        match self {
            Ending::Delete if tombstones => spec::tombstone(found, &value, &which, protections),
            Ending::Delete => spec::delete(found, &value, &which, protections),
            Ending::End(scope) => spec::end(found, &value, &which, scope, now, protections),
        }
    }
}
