//! The protocol of mongo-lease for its Node client: commands and decisions, as WebAssembly.
//!
//! Commands go out and replies come back as BSON; decisions are calls of `rules`. TypeScript sends, waits, and keeps
//! time. Moments are microseconds of the process's own clock, durations are milliseconds, and infinity is "never".
//!
//! Some of the library's own files are compiled here too, from where they are: its texts, its checks of options, its
//! reading of the driver's errors, and its fences. They find the driver's words in the crate `driver`.

// The library's files have parts for features that this crate has not.
#![allow(unexpected_cfgs)]
// A reply of another kind, or of another document, is no answer.
#![allow(clippy::wildcard_enum_match_arm)]

mod attempts;
mod clock;
mod command;
mod constants;
mod convert;
mod event;
mod failed;
mod fenced;
mod guard;
mod heartbeat;
mod holding;
mod key;
mod manager;
mod release;
mod renewal;
mod reopening;
mod reply;
mod request;
mod several;
mod shape;
mod slots;
mod store;
mod transaction;
mod waiter;

#[path = "../../../../src/error/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's file, with what only the library needs"
)]
mod error;
#[path = "../../../../src/failure/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's file, with what only the library needs"
)]
mod failure;
#[path = "../../../../src/fencing/fence.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's file, with what only the library needs"
)]
mod fence;
#[path = "../../../../src/indexes/problem.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's file, with what only the library needs"
)]
mod index_problem;
#[path = "../../../../src/hold/loss.rs"]
mod loss;
#[path = "../../../../src/options.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's file, with what only the library needs"
)]
mod options;
#[path = "../../../../src/token.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's file, with what only the library needs"
)]
mod token;
