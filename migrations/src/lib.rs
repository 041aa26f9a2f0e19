//! What the programs `mongo-lease-migrate` and `mongo-lease` share: plans for the indexes, connecting,
//! hiding secrets, the process's end, and how durations and dates are printed.

pub mod connect;
pub mod indexes;
pub mod process;
pub mod secret;
pub mod text;
