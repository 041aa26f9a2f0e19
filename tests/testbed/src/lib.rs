#![doc = include_str!("../README.md")]

mod apart;
mod child;
mod error;
mod fail_point;
pub mod find;
mod line_process;
mod orders;
mod process;
mod proxy;
mod random;
mod replica_set;
mod seed;
mod server;
mod uri;
#[doc(hidden)]
pub mod wire;

pub use error::Error;
pub use fail_point::{FailCommand, FailPoint, FailPointGuard, FailPointMode};
pub use process::Mongod;
pub use proxy::{HoldGuard, Loss, Proxy};
pub use replica_set::ReplicaSet;
pub use server::{CommandCounts, Server, ServerBuilder, TestDatabase, Version};

// For the tests of mongo-lease alone, as `wire` is: they may change in any version.
#[doc(hidden)]
pub use child::command;
#[doc(hidden)]
pub use line_process::{Ended, LineInput, LineOutput, LineProcess};
#[doc(hidden)]
pub use orders::{orders, say};
#[doc(hidden)]
pub use seed::Seed;
