//! Code shared by the programs `mongo-lease-migrate` and `mongo-lease`.
//!
//! It plans and applies indexes, connects, hides secrets, ends the process, and prints durations and dates.

pub mod command_line;
pub mod connect;
pub mod indexes;
pub mod process;
pub mod secret;
pub mod text;
