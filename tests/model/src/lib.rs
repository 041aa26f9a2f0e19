//! The protocol in a model checker: clients that act by the library's own rules, against a server that carries out the
//! library's own specification.
//!
//! See the README beside this for what is modelled and what is not.

/// A quarter of the time went into allocating, and two threads waited for each other there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod releases;
mod server;

mod bounds;
mod claimed;
mod state;

mod client;
mod confirming;
mod cutting;
mod handing_on;
mod harmless;
mod primary;
mod waiting;

mod permits;

mod explore;
mod properties;
mod search;
mod seen;
mod settling;
mod steps_of_clients;
mod steps_of_line;
mod taking;
mod transactions;

pub mod worlds;
mod worlds_of_lines;
mod worlds_of_transactions;
mod wrong_turns;

pub use bounds::{
    Begins, Bounds, ClientBounds, Clocks, First, Judges, RATE_EXACT, RATE_SLOW, Variant, Waits,
};
pub use harmless::harmless;
pub use permits::{
    NamedPermits, PermitBounds, PermitClaim, PermitVariant, PermitWrongTurn, check_permits,
    default_worlds, find_permits, large_worlds, permit_wrong_turns,
};
pub use properties::Claim;
pub use search::{Found, Report, check, find};
pub use wrong_turns::{WrongTurn, wrong_turns};
