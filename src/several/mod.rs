//! Leases of several names at once: all or none. Built on the public interface.

mod acquire_all;
mod lease_set;

pub use acquire_all::AcquireAll;
pub use lease_set::LeaseSet;
