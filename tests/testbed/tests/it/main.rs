//! The testbed keeps its promises.

mod process;
mod proxy;
mod server;
