//! Real servers for this project's tests, which [`FailCommand`] and [`Proxy`] fault: see [`Server`].
//!
//! The README beside this folder says where mongod comes from, and what is left behind. Unix only.

mod apart;
mod child;
mod error;
mod fail_point;
mod find;
mod line_process;
mod orders;
mod process;
mod proxy;
mod random;
mod replica_set;
mod seed;
mod server;
pub mod wire;

pub use child::command;
pub use error::Error;
pub use fail_point::{FailCommand, FailPoint, FailPointGuard};
pub use line_process::{Ended, LineInput, LineOutput, LineProcess};
pub use orders::{orders, say};
pub use process::Mongod;
pub use proxy::{HoldGuard, Loss, Proxy};
pub use replica_set::ReplicaSet;
pub use seed::Seed;
pub use server::{CommandCounts, Server, ServerBuilder, TestDatabase, Version};
