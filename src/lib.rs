#![doc = include_str!("../registry/crate.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// `clippy.toml` lists the methods. Tests have their own clocks and tasks.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod acquire;
mod batch;
mod builder;
mod clock;
mod election;
mod engine;
mod error;
mod failure;
mod fencing;
mod hints;
mod hold;
pub mod indexes;
mod lease;
mod list;
mod lock;
mod manager;
#[cfg(feature = "memory")]
mod memory;
mod mistake;
mod options;
mod release;
mod retry;
mod runner;
mod scheduled_job;
mod several;
mod telemetry;
mod token;
mod transaction;
mod wait;

pub use acquire::semaphore::Semaphore;
pub use acquire::{Acquire, Attempt};
pub use builder::LeaseManagerBuilder;
pub use election::{Election, Leadership, Stop};
pub use engine::ShutdownReport;
pub use error::{Error, LostReason, Result};
pub use fencing::{Fenced, FencedWrite, SendFencedWrite};
pub use lease::{Lease, LeaseKey};
pub use list::List;
pub use manager::LeaseManager;
#[cfg(feature = "memory")]
#[doc(hidden)]
pub use memory::simulated;
#[cfg(feature = "memory")]
#[cfg_attr(docsrs, doc(cfg(feature = "memory")))]
pub use memory::{MemoryFault, MemoryHang, MemoryStore};
pub use options::Tuning;
pub use release::Released;
pub use scheduled_job::{Run, ScheduledJob};
pub use several::{AcquireAll, LeaseSet};
pub use telemetry::Event;
pub use token::{ParseTokenError, Token};
pub use transaction::Transaction;

pub use chrono;
pub use mongo_lease_core::info::{LeaseHolder, LeaseInfo, LeaseState, MetadataError};
#[cfg(feature = "memory")]
#[cfg_attr(docsrs, doc(cfg(feature = "memory")))]
pub use mongo_lease_memory::CommandKind;
pub use mongodb;

/// Compiles the code on the pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../registry/README.md")]
    struct Readme;
    #[doc = include_str!("../docs/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../docs/elections-and-jobs.md")]
    struct ElectionsAndJobs;
    #[doc = include_str!("../docs/fencing.md")]
    struct Fencing;
    #[doc = include_str!("../docs/holding.md")]
    struct HoldingPage;
    #[doc = include_str!("../docs/operators.md")]
    struct Operators;
    #[doc = include_str!("../docs/permits.md")]
    struct PermitsPage;
    #[cfg(feature = "memory")]
    #[doc = include_str!("../docs/testing.md")]
    struct Testing;
}
