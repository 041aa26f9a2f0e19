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
//! | `document` | the fields of a lease with their types, and when it is free | |
//! | `protections` | the decisions on which the others rely, each on its own | |
//! | `admission` | the rule: who counts, how many waiters fit, and the document after their admission | |
//! | `attempt`, `acquire` | admits waiters and the caller, or adds the caller to the queue | `acquire`; `insert`: `fast_acquire` |
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
//! The [front page](crate) has the rule by which all of them admit, and the two clocks. Times are numbers without a
//! unit here: milliseconds in the database, but for the echo, which is in microseconds.

mod acquire;
mod admission;
mod attempt;
mod document;
mod fast_acquire;
mod neighbours;
#[cfg(any(test, feature = "__mistakes"))]
mod off;
mod protections;
mod queue;
mod release;
mod renew;
#[cfg(test)]
mod tests;

pub use acquire::{AcquireAnswer, acquire, insert};
pub use attempt::{AcquireAttempt, QueueOptions};
pub use document::{
    Admission, DamagedHolder, Document, Element, Entry, Expiry, Grant, Holder, HolderElement,
    Holders, LONG_AGO, Listed, OwnGrant, Promoted, Queue, Types,
};
pub use fast_acquire::{fast_acquire, fast_admit, fast_admit_reply, fast_reply};
pub use neighbours::{foreign_acquire, foreign_release, ttl_delete};
#[cfg(any(test, feature = "__mistakes"))]
pub use off::{Off, PROTECTIONS};
pub use protections::{AsBuilt, Protections};
pub use queue::heartbeat;
pub use release::{EndScope, GrantMatch, delete, end, release_later, tombstone};
pub use renew::{ResumeTerms, guard, renew, renew_holders, resume};
