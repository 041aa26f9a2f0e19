//! The rules of the protocol's core, and the one state of the library that two tasks change without a lock. The
//! library's own tests compare the effects with a real server.

mod rules;
mod stages;
