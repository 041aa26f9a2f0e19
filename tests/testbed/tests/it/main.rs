//! The testbed keeps its promises.

mod line_process;
mod process;
mod proxy;
mod server;
