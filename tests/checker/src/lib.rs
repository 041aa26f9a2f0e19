//! The checker: compares the histories of clients with the changes of the leases' documents, and finds each promise of
//! mongo-lease that was broken.
//!
//! It is pure: no files, no sockets, no clocks, no tasks. The torture suite gives it the evidence of real servers; a
//! simulation, that of a store in memory.
//!
//! 1. Each acquire call has an id that no other has, and its `metadata` the text `call` with that id. Its process notes
//!    a [`Record`](history::Record) of each event.
//! 2. Each write to a lease's document is a [`Change`](changes::Change), in the order of the writes, with the document
//!    before and after it: [`State::of`](changes::State::of) reads a document.
//! 3. An [`Evidence`] has both, and [`check()`] or [`check_only`] finds the violations in it.
//!
//! ```
//! use mongo_lease_checker::changes::{Change, Grant, State};
//! use mongo_lease_checker::history::{Record, What};
//! use mongo_lease_checker::permits::Permits;
//! use mongo_lease_checker::{
//!     Allowances, CheckOptions, Evidence, Invariant, LeftOver, MILLI, Nanos, SECOND, check,
//! };
//!
//! let event = |millis, what| Record { at: millis * MILLI, by: "client".to_owned(), what };
//! let (call, name, permits) = ("client/1".to_owned(), "job".to_owned(), Permits::EXCLUSIVE);
//! let asks = What::Invoked { call, name, ttl_ms: 2_000, wait_ms: None, permits };
//! let (call, name, value) = ("client/1".to_owned(), "job".to_owned(), "m-1".to_owned());
//! let valid_until = 9_000 * MILLI;
//! let hears = What::Granted { call, name, token: 7, value: value.clone(), valid_until };
//! let (id, call, expires_at) = ("m-1.1".to_owned(), "client/1".to_owned(), 2_110);
//! let grant = Grant { value, id, call, acquired_at: 110, expires_at, permits };
//! let after = State { expires_at, grants: vec![grant], ..State::default() };
//! let name = "job".to_owned();
//! let write = Change { token: 7, wall: 110, name, before: None, after: Some(after.into()) };
//! let evidence = Evidence {
//!     records: vec![event(100, asks), event(120, hears)],
//!     changes: vec![write],
//!     // The server's clock, too, begins at zero here.
//!     wall_ahead: 0,
//!     began: 0,
//!     ended: 5 * SECOND,
//!     known_until: 3 * SECOND,
//!     terms: CheckOptions {
//!         max_clock_skew: 0,
//!         waiter_ttl: SECOND,
//!         clock_error: 0,
//!         calls_travel_together: false,
//!         allowances: Allowances::REAL,
//!     },
//!     left: LeftOver::default(),
//! };
//! let found = check(&evidence);
//! assert_eq!(found[0].invariant, Invariant::Belief, "until 9 s, and the document says 2.11 s");
//! assert_eq!(found[0].calls, ["client/1"]);
//! ```

pub mod changes;
mod check;
pub mod history;
pub mod maps;
pub mod permits;
mod time;

pub use check::{
    Allowances, Call, CheckOptions, Cursor, Evidence, Facts, Fault, Freed, Gap, Hold, Invariant,
    LeftOver, Violation, check, check_facts, check_only, freed, gaps, is_lost, moment, overshoot,
};
pub use time::{MILLI, Nanos, SECOND};
