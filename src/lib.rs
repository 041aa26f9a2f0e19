#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;

mod election;
mod scheduled_job;

mod manager;

mod acquire;
mod lease;
mod list;

mod engine;
mod fencing;

mod hold;
pub mod indexes;
mod wait;

mod release;

mod retry;

mod batch;
mod hints;

mod runner;

mod clock;
mod error;
mod events;
mod options;
mod telemetry;

mod commands;
mod info;

mod rules;
mod schema;

pub use acquire::{Acquire, Attempt};
pub use election::{Election, Leadership, Stop};
pub use engine::ShutdownReport;
pub use error::{Error, LostReason, Result};
pub use events::Event;
pub use fencing::{Fenced, FencedWrite, SendFencedWrite};
pub use info::{LeaseInfo, LeaseState};
pub use lease::{Lease, LeaseKey};
pub use list::List;
pub use manager::{LeaseManager, LeaseManagerBuilder};
pub use release::Released;
pub use rules::token::{ParseTokenError, Token};
pub use scheduled_job::{Run, ScheduledJob};

pub use mongodb;

/// The code in the pages compiles, as that of the README does.
#[cfg(doctest)]
mod pages {
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
    #[doc = include_str!("../docs/web-services.md")]
    struct WebServices;
}
