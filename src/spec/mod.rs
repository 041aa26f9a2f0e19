//! The protocol: the document of one lease, and the effect of each command on it.
//!
//! This is the one definition of every command. `commands/` writes the same as pipelines for the server, and the
//! agreement test (`commands/tests/agreement`) compares both on a real server. The model checker (`tests/model`)
//! explores these functions with every order of commands, lost replies, crashes, and clocks that differ.
//!
//! The module uses `std` alone. It reads no clock and knows no driver: `now` is an argument.
//!
//! # How to read it
//!
//! | file | what is there | commands |
//! | --- | --- | --- |
//! | `document` | the fields of a lease, and when it is free | |
//! | `request` | the request of an acquire | |
//! | `acquire` | grants a free lease, or adds the caller to the queue | `acquire` |
//! | `fast_acquire` | a call's first attempt: grants a free lease, or changes nothing | `fast_acquire` |
//! | `renew` | prolongs one grant | `renew`, `guard` |
//! | `queue` | which entries count, joins, heartbeats | `acquire`, `heartbeat` |
//! | `release` | deletes the document, makes a tombstone, hands the lease off, or keeps its name blocked | `release`, `tombstone` |
//! | `neighbours` | other programs and the server's own deletes | |
//! | `types` | the types of ids | |
//! | `protections` | the decisions that make the protocol safe, each on its own | |
//!
//! Each function takes the document that the server finds for the name, and `None` where there is none. It returns the
//! document after the write, with the answer. The server carries out one command on one document at a time, so each
//! function is atomic.
//!
//! # Times
//!
//! Times are numbers of milliseconds. There are three clocks:
//!
//! 1. `now` is `$$NOW`, the clock of the primary. The server takes it when a command *arrives*. A command that waits
//!    for a lock may find a document that was written later than its `now`. So a time that protects somebody only moves
//!    forwards.
//! 2. `sent` is the clock of the caller's process when it sent the command, and is called the *echo*. The server stores
//!    it and sends it back, and compares it with nothing. A caller believes in its lease for the ttl from the echo on:
//!    the command cannot have arrived before it was sent.
//! 3. Members' clocks differ by at most the maximum clock skew. Each grant lasts that much longer for the server than
//!    for its holder. So a new primary whose clock is ahead grants nothing that a holder believes in.

mod acquire;
mod document;
mod fast_acquire;
mod neighbours;
mod protections;
mod queue;
mod release;
mod renew;
mod request;
mod types;

pub(crate) use acquire::{AcquireReply, acquire, insert};
pub(crate) use document::{Document, Element, Entry, Expiry, Grant, GrantKey, Promoted, Queue};
pub(crate) use fast_acquire::{FastReply, fast_acquire, fast_reply};
pub(crate) use neighbours::{foreign_acquire, foreign_release, ttl_delete};
pub(crate) use protections::{AsBuilt, Protections};
pub(crate) use queue::heartbeat;
pub(crate) use release::{
    GrantMatch, HandOffTo, LONG_AGO, hand_off, release, release_later, tombstone,
};
pub(crate) use renew::{guard, renew, resume};
pub(crate) use request::{AcquireRequest, QueueOptions};
pub(crate) use types::Types;
