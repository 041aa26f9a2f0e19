//! The rules of the protocol's core. The library's own tests compare the effects with a real server.

mod rules;
