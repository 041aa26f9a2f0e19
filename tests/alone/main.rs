//! Exact counts of commands, and exact times, with a real server: for a quiet machine.
//!
//! A busy machine is late, and repeats commands. So `cargo test` neither builds nor runs these tests. They run by
//! themselves, on servers that they start, few at a time:
//!
//! ```sh
//! cargo test --test alone -- --test-threads 2
//! ```
//!
//! `tests/it` has what the same situations mean to users, without the numbers. The tools are common to both.

// A test names what it expects; everything else is a failure, also variants that are added later.
#![allow(clippy::wildcard_enum_match_arm)]

mod blocked;
mod heartbeats;
mod late_majority;
mod many;
mod permits;
mod queue;
mod releases;
mod rounds;
mod single;
mod times;

#[path = "../tools/mod.rs"]
#[allow(dead_code, reason = "`tests/it` uses the rest")]
mod tools;

use tools::*;
