//! The library against a real server: one binary, a module a concern.

mod acquire;
mod common;
