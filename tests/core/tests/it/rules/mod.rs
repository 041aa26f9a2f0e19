//! Tables for the rules, and random histories where a table would be too large. They need no server and no clock.

mod attempts;
mod batching;
mod bound;
mod guesses;
mod holder;
mod ids;
mod permits;
mod promoted;
mod slots;
mod texts;
mod timing;
mod tombstone;
mod waiter;
mod waiter_at_random;
mod waiter_promotions;
