//! A shared time limit for one kind of command: wraps `rules::batching::Bound`.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::rules::{Bound, Instant};

use crate::failure::Failure;
use crate::lock::Lock;

/// The bound of one kind of command. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<Lock<Bound>>);

impl Pace {
    /// The time limit of the next command.
    pub(crate) fn bound(&self, is_held_up: bool) -> Duration {
        self.with(|bound| if is_held_up { bound.get_held_up() } else { bound.get() })
    }

    /// Applies the answer, which came `now`, to a command that was sent at `sent`.
    pub(super) fn answered<T>(&self, now: Instant, sent: Instant, answer: &Result<T, Failure>) {
        match answer {
            Ok(_) => self.with(|bound| bound.went_through(now, now.since(sent))),
            Err(failure) if failure.is_cut_off() => self.with(|bound| bound.timed_out(now, sent)),
            Err(_) => {}
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Bound) -> T) -> T {
        change(&mut self.0.lock())
    }
}
