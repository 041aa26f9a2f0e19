//! Code shared by the programs `mongo-lease-migrate` and `mongo-lease`. It is no interface for others: its modules are
//! hidden, and any release may change any item here. Your own migration needs
//! [`mongo_lease::indexes::SPECS`] alone.
//!
//! It plans and applies indexes, reads the command line, connects, hides secrets, ends the process, prints durations
//! and dates, and writes manual pages.

#[doc(hidden)]
pub mod command_line;
#[doc(hidden)]
pub mod connect;
#[doc(hidden)]
pub mod indexes;
#[doc(hidden)]
pub mod manual;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod secret;
#[doc(hidden)]
pub mod text;
