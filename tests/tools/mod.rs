//! The tools of the tests in `tests/it` and in `tests/alone`.
//!
//! Both import these modules at their roots. So a module is named from there, here too: `crate::common`.

pub(crate) mod batches;
pub(crate) mod blocking;
pub(crate) mod common;
pub(crate) mod lent;
pub(crate) mod patience;
pub(crate) mod spy;
pub(crate) mod waiters;
pub(crate) mod worker;
