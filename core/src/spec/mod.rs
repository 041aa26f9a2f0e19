//! The protocol: the document of one lease, and the effect of each command on it.
//!
//! This is the one definition of what commands do to a lease. `commands` writes the same for the server, as pipelines,
//! updates and deletes, and the agreement test (`commands/tests/agreement`) compares both on a real server. The model
//! checker (`tests/model`) explores these functions with every order of commands, lost replies, crashes, and clocks
//! that differ. The agreement test alone covers `insert`, `resume`, `release_later`, renewals of several permits of one
//! lease, and corrupt documents. Two things have no function here: the additional write that makes a token on a
//! standalone server, and the parts of a batch that are sent again.
//!
//! # How to read it
//!
//! | file | what is there | sent by `commands/` |
//! | --- | --- | --- |
//! | `types` | the types of values and ids | |
//! | `document` | the fields of a lease, and when it is free | |
//! | `protections` | the decisions on which the others rely, each on its own | |
//! | `admission` | the rule: who counts, how many waiters fit, and the document after their admission | |
//! | `request`, `acquire` | admits waiters and the caller, or adds the caller to the queue | `acquire`; `insert`: `fast_acquire` |
//! | `fast_acquire` | the cheapest attempts: the caller alone is admitted, or nothing changes | `fast_acquire`, `fast_admit` |
//! | `renew` | prolongs grants; `guard` and `resume` do too | `renew`, `renew_holders`, `guard` |
//! | `queue` | which entries live, and heartbeats | `heartbeat` |
//! | `release` | deletes the document, makes a tombstone, ends one grant and admits waiters, or blocks the name for a while | `delete`, `tombstone`, `end`, `end_later` |
//! | `neighbours` | other programs and the server's own deletes | |
//!
//! Each function takes the document that the server finds for the name, and `None` where there is none. It returns the
//! document after the write, with the answer. A command may name many leases. The server applies it to one document at
//! a time, and each function is one such step.
//!
//! A value *holds* a lease while the document names it, also after the expiry: until somebody else is granted the
//! lease, a late renewal still succeeds.
//!
//! # The rule
//!
//! **A call is admitted if, with it, the permits in use are at most the smallest limit of all who then hold, its own
//! included.** The limit of a holder binds for as long as it holds.
//!
//! | | permits | limit |
//! | --- | --- | --- |
//! | exclusive lease, writer | 1 | 1 |
//! | semaphore of N, k permits of it | k | N |
//! | reader | 1 | [`LIMIT_MAX`](crate::rules::permits::LIMIT_MAX) |
//!
//! So there is no mode and no stored configuration. Every command but the fast ones reads the document as a list of
//! holders, applies the rule, and writes the holders back: one under limit 1 in the plain form, as `value`, `expiresAt`
//! and `grant`; others as the list `holders`, with [`Types::shared`] as `value`. Each write of this value writes
//! `holders` anew, so elements that other programs and exclusive holders leave there are never revived.
//!
//! Waiters are in one queue, strictly in order: a waiter that does not fit blocks those behind it, so nobody starves,
//! and readers between two writers are admitted together. Each write that can make room admits as many waiters as fit.
//!
//! The permits of *all* holders in the document, also of those that have expired and that no write has removed yet, are
//! at most the smallest limit of them. A removal keeps this, an admission checks it, renewals and repeated attempts do
//! not touch it. So an expired holder that is still there may be renewed.
//!
//! # Times
//!
//! Times are numbers without a unit here: milliseconds in the database, but for the echo, which is in microseconds.
//! There are two clocks and one bound:
//!
//! 1. `now` is `$$NOW`, the clock of the primary. The server takes it when a command *arrives*. A command that waits
//!    for a lock may find a document that was written later than its `now`. So no command shortens the time of a grant
//!    that its holder still has, or the life of an entry.
//! 2. `sent` is the clock of the caller's process when it sent the command, and is called the *echo*. The server stores
//!    it and sends it back, and compares it with nothing. A caller believes in its lease for the ttl, less a margin,
//!    from the echo on: the command cannot have arrived before it was sent.
//! 3. The bound: members' clocks differ by at most the maximum clock skew. Each grant lasts that much longer for the
//!    server than for its holder. So a new primary whose clock is ahead grants nothing that a holder believes in.
//!
//! No field holds the fencing token, except on a standalone server: it is the oplog time of a write of the grant.

mod acquire;
mod admission;
mod document;
mod fast_acquire;
mod neighbours;
mod protections;
mod queue;
mod release;
mod renew;
mod request;
#[cfg(test)]
mod tests;
mod types;

pub use acquire::{AcquireReply, acquire, insert};
pub use document::{
    Admission, DamagedHolder, Document, Element, Entry, Expiry, Grant, GrantKey, Holder,
    HolderElement, Holders, LONG_AGO, Listed, Promoted, Queue,
};
pub use fast_acquire::{fast_acquire, fast_admit, fast_admit_reply, fast_reply};
pub use neighbours::{foreign_acquire, foreign_release, ttl_delete};
pub use protections::{AsBuilt, Protections};
pub use queue::heartbeat;
pub use release::{EndScope, GrantMatch, delete, end, release_later, tombstone};
pub use renew::{ResumeTerms, guard, renew, renew_holders, resume};
pub use request::{AcquireRequest, QueueOptions};
pub use types::Types;
