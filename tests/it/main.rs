//! The library against a real server: one binary, a module a concern.

mod acquire;
mod cancel;
mod common;
mod drops;
mod events;
mod fencing_example;
mod guard;
mod loss;
mod patience;
mod renewal;
mod shutdown;
mod worker;
