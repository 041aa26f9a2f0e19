//! The protocol: the document of one lease, and the effect of each command on it.
//!
//! This is the one definition of what commands do to a lease. `commands` writes the same for the server, as pipelines,
//! updates and deletes, and the agreement test (`commands/tests/agreement`) compares both on a real server. The model
//! checker (`tests/model`) explores these functions with every order of commands, lost replies, crashes, and clocks
//! that differ. The agreement test alone covers `insert`, `resume`, `release_later`, renewals of several permits of one
//! lease, and corrupt documents. Two things have no function here: the additional write that makes a token on a
//! standalone server, and the parts of a batch that are sent again.
//!
//! The module uses `std` alone. It reads no clock and knows no driver: `now` is an argument.
//!
//! # How to read it
//!
//! | file | what is there | sent by `commands/` |
//! | --- | --- | --- |
//! | `types` | the types of values and ids | |
//! | `document` | the fields of a lease, and when it is free | |
//! | `protections` | the decisions on which the others rely, each on its own | |
//! | `request`, `acquire` | grants a free lease, or adds the caller to the queue | `acquire`; `insert`: `fast_acquire` |
//! | `fast_acquire` | the cheapest attempt: grants a free lease, or changes nothing | `fast_acquire` |
//! | `renew` | prolongs one grant; `guard` and `resume` do too | `renew`, `guard` |
//! | `queue` | which entries count, joins, heartbeats | `acquire`, `heartbeat` |
//! | `release` | deletes the document, makes a tombstone, hands the lease off, or blocks its name for a while | `release`, `tombstone`, `queue` |
//! | `holders`, `permits` | a lease that several hold at once: semaphores, and readers with writers | `permits` |
//! | `neighbours` | other programs and the server's own deletes | |
//!
//! Each function takes the document that the server finds for the name, and `None` where there is none. It returns the
//! document after the write, with the answer. A command may name many leases. The server applies it to one document at
//! a time, and each function is one such step.
//!
//! A value *holds* a lease while the document names it, also after the expiry: until somebody else is granted the
//! lease, a late renewal still succeeds.
//!
//! # Times
//!
//! Times are numbers without a unit here: milliseconds in the database, but for the echo, which is in nanoseconds.
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
//! # The token
//!
//! No field holds the fencing token, except on a standalone server. The token is the oplog time of a write of the
//! grant: `operationTime` in the reply, or `clusterTime` in the change event of a promotion. A later grant is a later
//! write, so its token is greater, also after the document was deleted. A batch has one time for all of its grants; a
//! majority read after that time confirms each of them.
//!
//! # The way of a waiter
//!
//! A refused call that may wait is in the queue. Its process sends heartbeats at a third of the waiter ttl, so a dead
//! process is passed over soon. A release promotes the first live entry in one write. The change stream delivers
//! `promoted` to that process, and the waiter has its lease without another command. Its first renewal follows soon,
//! because a promotion lasts for no longer than the waiter ttl. The stream can fail, an expiry sends no event, and the
//! TTL monitor deletes the queue with the document: so each waiter also has a time for its next attempt.
//!
//! # Around the commands
//!
//! The client numbers its attempts, repeats an unanswered one with the same value, releases grants that it does not
//! use, renews after a third of the ttl, and declares a loss by its own clock alone (`rules/`). The protocol also
//! relies on the unique index on `name`, on writes that a majority has journalled, and on names being compared byte by
//! byte.

mod acquire;
mod document;
mod fast_acquire;
mod holders;
mod neighbours;
pub mod permits;
mod protections;
mod queue;
mod release;
mod renew;
mod request;
mod types;

pub use acquire::{AcquireReply, acquire, insert};
pub use document::{Document, Element, Entry, Expiry, Grant, GrantKey, Promoted, Queue};
pub use fast_acquire::{FastReply, fast_acquire, fast_reply};
pub use holders::Holders;
pub use neighbours::{foreign_acquire, foreign_release, ttl_delete};
pub use protections::{AsBuilt, Protections};
pub use queue::heartbeat;
pub use release::{
    GrantMatch, HandOffTo, LONG_AGO, hand_off, is_left_to_admit, release, release_later, tombstone,
};
pub use renew::{ResumeTerms, guard, renew, resume};
pub use request::{AcquireRequest, QueueOptions};
pub use types::Types;
