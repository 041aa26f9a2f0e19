#![doc = include_str!("../README.md")]
// `clippy.toml` lists the methods: this package reads no clock. Its tests have a server, and tasks.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod acquire;
mod find;
mod journal;
mod late;
mod leases;
mod majority;
mod mistake;
mod pattern;
mod probe;
mod release;
mod renew;
mod snapshot;
#[cfg(all(test, feature = "__tests"))]
mod tests;

pub use journal::Write;
pub use leases::{Collection, Leases, News, PromotionEvent};
#[cfg(feature = "__mistakes")]
pub use mistake::{Lens, make};

// The words that the files of commands share: each of them begins with `use super::*`.
use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::DateTime;
use mongo_lease_core::bson::{Bson, Timestamp, doc};
use mongo_lease_core::commands::{heartbeat::by_document, snapshot::small, *};
use mongo_lease_core::info::{LeaseHolder, LeaseInfo, LeaseState};
use mongo_lease_core::rules::{FastForm, GrantId, Instant, Permits, from_millis, millis_up};
use mongo_lease_core::spec::{self, Expiry, Holder};
use mongo_lease_core::texts::{Details, LeaseDocument, Texts};

use mistake::built;

/// A command that a store in memory carries out.
pub trait InMemory: Command + Clone {
    /// The purpose of the command. `None`: no planned fault happens to it.
    const KIND: Option<CommandKind> = None;

    /// Carries the command out. `sent` is the echo.
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Self::Reply;
}

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommandKind {
    /// An attempt to acquire a lease, or to join its queue.
    Acquire,
    /// A renewal of held leases, which are renewed together, or of a detached one, or a resume.
    Renew,
    /// The heartbeat of the calls that wait in queues.
    Heartbeat,
    /// A release or a hand-off, also in the background; and a waiting call that leaves a queue.
    Release,
    /// A read: `get`, `list` and `ping`, and the first command of `build`.
    Read,
}
