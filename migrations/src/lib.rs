//! Code shared by the programs `mongo-lease-migrate` and `mongo-lease`.
//!
//! It plans and applies indexes, reads the command line, connects, hides secrets, ends the process, prints durations
//! and dates, and writes manual pages.

pub mod command_line;
pub mod connect;
pub mod indexes;
pub mod manual;
pub mod process;
pub mod secret;
pub mod text;
