//! The testbed keeps its promises.

mod failover;
mod line_process;
mod process;
mod proxy;
mod server;
