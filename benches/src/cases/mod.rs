//! The cases of the benchmark, a file each.

pub(crate) mod alone;
pub(crate) mod churn;
pub(crate) mod hand_off;
pub(crate) mod holding;
pub(crate) mod many;
pub(crate) mod memory;
pub(crate) mod waiting;
