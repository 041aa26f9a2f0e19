//! The decisions of a client, separate from their execution.
//!
//! All of this is pure: it uses `std` only, is never asynchronous, and reads no clock, no randomness and no database.
//! Time, randomness and events are arguments, and the result is the next action. So the library, the tables of tests
//! and the model checker run the same code.

pub mod attempts;
pub mod batching;
pub mod commits;
pub mod election;
pub mod guesses;
pub mod holder;
pub mod ids;
pub mod listening;
pub mod name;
pub mod outcome;
pub mod pattern;
pub mod permits;
pub mod reopening;
pub mod slots;
pub mod time;
pub mod timing;
pub mod tombstone;
pub mod waiter;

pub use self::{
    attempts::*, batching::*, commits::*, election::*, guesses::*, holder::*, ids::*, listening::*,
    name::*, outcome::*, pattern::*, permits::*, reopening::*, slots::*, time::*, timing::*,
    tombstone::*, waiter::*,
};
