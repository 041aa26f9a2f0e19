//! One document that a transaction blocks delays no call that does not need it.
//!
//! Each test keeps the transaction open until everything that must happen has happened: nothing here waits for its end.

mod acquires;
mod releases;
mod shared;

use crate::blocking::{LONG, Setup, manager, names, none_has_ended, setup, waiting};
pub(crate) use crate::blocking::{free_and_blocked, start_releases, transaction, transaction_on};
