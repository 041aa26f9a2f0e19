//! The decisions of this crate, separate from their execution.
//!
//! All of this is pure: it uses `std` only, is never asynchronous, and reads no clock, no randomness and no database.
//! Time, randomness and events are arguments, and the result is the next action. So the same code runs in the library,
//! in the test tables, and in the model checker.

pub(crate) mod attempts;
pub(crate) mod backoff;
pub(crate) mod batching;
pub(crate) mod churn;
pub(crate) mod contended;
pub(crate) mod held_up;
pub(crate) mod holder;
pub(crate) mod ids;
pub(crate) mod name;
pub(crate) mod outcome;
pub(crate) mod pattern;
pub(crate) mod permits;
pub(crate) mod slots;
pub(crate) mod time;
pub(crate) mod timing;
pub(crate) mod token;
pub(crate) mod tombstone;
pub(crate) mod waiter;

#[cfg(test)]
pub(crate) mod tests;
