//! The binary `mongo-lease` against a real server: one test binary, a module a concern.

// A test names what it expects; everything else is a failure, also variants that are added later.
#![allow(clippy::wildcard_enum_match_arm)]
#![cfg(unix)]

mod before_expiry;
mod busy;
mod commands;
mod deploy;
mod doctor;
mod environment;
mod guard;
mod keys;
mod listing;
mod loss;
mod manual;
mod on_lost;
mod pages;
mod permits;
mod release;
mod secrets;
mod shared;
mod signals;
mod terminal;
mod tls;
mod watch;

// The tools of the tests.
mod lifeline;
mod tool;
