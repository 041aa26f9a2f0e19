//! The rules of the protocol's core, how a lease is shown, and the one state of the library that two tasks change
//! without a lock. The library's own tests compare the effects with a real server.

mod details;
mod info;
mod rules;
mod stages;
