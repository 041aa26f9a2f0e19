//! Leases of several names: all or none.

mod convoy;
mod outcomes;
mod trouble;
