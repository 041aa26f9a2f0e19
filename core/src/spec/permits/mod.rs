//! Permits: a lease that several hold at once.
//!
//! There is one rule: **a call is admitted if, with it, the permits in use are at most the smallest limit of all who
//! then hold, its own included**. The limit of a holder binds for as long as it holds.
//!
//! | | permits | limit |
//! | --- | --- | --- |
//! | exclusive lease, writer | 1 | 1 |
//! | semaphore of N, k permits of it | k | N |
//! | shared lease, reader | 1 | [`LIMIT_MAX`] |
//!
//! So there is no mode, no stored configuration and no second kind of document. A call with limit 1 acquires by the
//! commands of exclusive leases, and by no other: to [`admit`] a lease that shows the caller's own value is free, and a
//! late attempt of an exclusive holder would give its own lease to a waiter.
//!
//! | file | what is there |
//! | --- | --- |
//! | `admit` | `admit`: is admitted, finds its own grant, or joins the queue; `fast_admit`: is admitted, or changes nothing |
//! | `fitting` | how many waiters fit, and the document after their admission |
//! | `release` | `release_and_admit` ends a grant of either form, or leaves the queue; `release_permit` and `delete_last_holder` do what is cheaper where nobody waits |
//! | `renew` | prolongs the grants of one process |
//! | `protections` | the decisions on which the rule rests, each on its own |
//!
//! # The invariant
//!
//! The permits of *all* holders in the document, also of those that have expired and that no write has removed yet, are
//! at most the smallest limit of them. A removal keeps this, an admission checks it, renewals and repeated attempts do
//! not touch it. So an expired holder that is still there may be renewed, as an exclusive one may.
//!
//! `holders` count only while `value` is [`Types::shared`]. Each write that sets this value writes `holders` anew. So
//! what other programs and exclusive holders leave in the document is never revived.
//!
//! Waiters are in the one queue of the lease, strictly in order: a waiter that does not fit blocks those behind it, so
//! nobody starves, and readers between two writers are admitted together. Each write that can make room admits as many
//! waiters as fit. A release that admits nobody may leave holders that expire before the one that has gone: then it
//! tells the first waiter, which would sleep until the later end.
//!
//! [`Types::shared`]: super::Types::shared

mod admit;
mod fitting;
mod protections;
mod release;
mod renew;
#[cfg(test)]
mod tests;

pub use admit::{AdmitRequest, admit, fast_admit, fast_admit_reply};
pub use protections::PermitProtections;
pub use release::{ReleaseScope, delete_last_holder, release_and_admit, release_permit};
pub use renew::renew_permits;

pub use super::holders::{
    Admission, DamagedHolder, Holder, HolderElement, Holders, LIMIT_MAX, Share,
};
