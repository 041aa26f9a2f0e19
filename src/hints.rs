//! Guesses of one manager about what its next commands will find. A wrong one costs time, and nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::rules::held_up::HeldUp;

/// Which documents are likely to be held up. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldUpNames(Arc<Mutex<HeldUp>>);

impl HeldUpNames {
    /// Whether this document is likely to be held up.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().has(clock::now(), name)
    }

    /// A write to this document did not go through, or a transaction of the caller's is about to hold it up.
    pub(crate) fn found(&self, name: &str) {
        self.names().found(clock::now(), name);
    }

    /// A write to this document went through.
    pub(crate) fn went_through(&self, name: &str) {
        self.names().went_through(name);
    }

    fn names(&self) -> MutexGuard<'_, HeldUp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
