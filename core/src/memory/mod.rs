//! The documents of a store in memory, for the tests of programs that hold leases.

mod leases;
mod pattern;

pub use crate::texts::{Admission, Details, LeaseDocument, Promoted, Texts};
pub use leases::{Collection, Leases, News, PromotionEvent};
pub use pattern::matches;

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryCommand {
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
