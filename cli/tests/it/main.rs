//! The binary `mongo-lease` against a real server: one test binary, a module a concern.

// A test names what it expects, and everything else is a failure, also what is added later.
#![allow(clippy::wildcard_enum_match_arm)]
#![cfg(unix)]

mod busy;
mod commands;
mod doctor;
mod guard;
mod listing;
mod loss;
mod pages;
mod release;
mod secrets;
mod signals;
mod terminal;
mod tls;
mod watch;

// What they are made with.
mod lifeline;
mod tool;
