//! The testbed keeps its promises.

mod failover;
mod front_page;
mod line_process;
mod process;
mod proxy;
mod server;
mod users;
