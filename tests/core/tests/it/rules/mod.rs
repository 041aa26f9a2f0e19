//! Tables for the rules, and random histories where a table would be too large. They need no server and no clock.

mod attempts;
mod batching;
mod bound;
mod commits;
mod guesses;
mod holder;
mod holder_applied;
mod ids;
mod permits;
mod promoted;
mod reopening;
mod slots;
mod texts;
mod timing;
mod tombstone;
mod transactions;
mod waiter;
mod waiter_at_random;
mod waiter_promotions;

use std::time::Duration;

use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::Timing;

const SECOND: Duration = Duration::from_secs(1);

fn timing() -> Timing {
    Timing::new(30 * SECOND, SECOND, None).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::START.after(Duration::from_secs(seconds))
}
