//! What the programs `mongo-lease-migrate` and `mongo-lease` share: the options of a connection, connecting, hiding
//! secrets, the process's end, and how durations and dates are printed.

pub mod command_line;
pub mod connect;
pub mod process;
pub mod secret;
pub mod text;
