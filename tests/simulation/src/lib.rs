//! Real managers on a simulated network, server and clock. One seed decides everything.
//!
//! A [`Plan`] is drawn from the seed: the options of a round and its faults. [`run`] lets the round happen on a runtime
//! of its own with a paused clock, and returns its history; [`judge`] finds the broken promises in it.

mod applied;
mod blocked;
mod changes;
mod control;
mod faults;
mod fleet;
mod neighbours;
mod plan;
mod process;
mod promises;
mod prompt;
mod resource;
mod round;
mod server;
mod shrink;
mod statements;
mod table;
mod transactions;
mod turns;
mod workload;
mod world;
mod writes;

/// A third of the time goes into allocating.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use control::{CONTROLS, Control, HARMLESS};
pub use plan::{Fault, Kind, Plan, ROUND_MS, Whom};
pub use promises::Broken;
pub use round::{History, judge, run};
pub use shrink::{Shrunk, shrink};
pub use table::table;
pub use transactions::{Blockage, LeftOpen};
pub use world::StreamNews;
pub use writes::BrokenWrite;
