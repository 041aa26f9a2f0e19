//! Calls that wait for a lease.
//!
//! This has the local queue of each name, the registry of this manager's waiters, and the two tasks that work on it.

pub(crate) mod heartbeat;
mod local_call;
pub(crate) mod local_queue;
pub(crate) mod waiters;
pub(crate) mod watcher;
