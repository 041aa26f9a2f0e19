//! Measuring, and the writing of results: shared by the benchmark programs `benches` and `peers`.
//!
//! Charts are not here: each program draws its own.

mod bare;
mod extent;
mod order;
mod page;
mod spread;

pub mod host;
pub mod worker;

pub use bare::{bare_collection, indexed_collection, journalled_collection};
pub use extent::Extent;
pub use order::inversions;
pub use page::{between_markers, rewrite};
pub use spread::{Round, Rounds, Spread, counted, millis_each, number, quantile};

/// The result of a step. Any error ends the run.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
