//! The cases of the benchmark, a file each.

pub(crate) mod alone;
pub(crate) mod growth;
pub(crate) mod hand_off;
pub(crate) mod holding;
mod idle;
pub(crate) mod losing;
pub(crate) mod many;
pub(crate) mod memory;
pub(crate) mod overload;
pub(crate) mod permits;
pub(crate) mod streams;
pub(crate) mod tombstones;
pub(crate) mod transactions;
pub(crate) mod waiting;
