//! One manager's guesses about what its next commands will find. A wrong guess costs only time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mongo_lease_core::rules::churn::{Churn, FastForm};
use mongo_lease_core::rules::contended::Contended;
use mongo_lease_core::rules::held_up::HeldUp;

use crate::clock::Clock;

/// The documents that are likely to be held up. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct HeldUpNames {
    names: Arc<Mutex<HeldUp>>,
    clock: Clock,
}

impl HeldUpNames {
    /// None is known yet.
    pub(crate) fn new(clock: Clock) -> HeldUpNames {
        HeldUpNames { names: Arc::default(), clock }
    }

    /// Whether this document is likely to be held up.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().has(self.clock.now(), name)
    }

    /// Notes that a write to this document did not go through, or that the caller's transaction will hold it up.
    pub(crate) fn found(&self, name: &str) {
        self.names().found(self.clock.now(), name);
    }

    /// Notes that a write to this document went through.
    pub(crate) fn went_through(&self, name: &str) {
        self.names().went_through(name);
    }

    fn names(&self) -> MutexGuard<'_, HeldUp> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells which names are new to this manager: with tombstones, these are inserted without a look-up.
#[derive(Debug)]
pub(crate) struct NewNames {
    names: Mutex<Churn>,
    clock: Clock,
}

impl NewNames {
    /// Starts without history. The caller says whether names may be inserted.
    pub(crate) fn new(may_insert: bool, clock: Clock) -> NewNames {
        NewNames { names: Mutex::new(Churn::new(may_insert)), clock }
    }

    /// The form of a call's first attempt at this lease.
    pub(crate) fn form(&self, name: &str) -> FastForm {
        self.names().asks(self.clock.now(), name)
    }

    /// Notes that an insert found a document.
    pub(crate) fn found_a_document(&self) {
        self.names().found_a_document();
    }

    fn names(&self) -> MutexGuard<'_, Churn> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leases that were recently held by others or waited for.
#[derive(Debug, Default)]
pub(crate) struct ContendedNames(Mutex<Contended>);

impl ContendedNames {
    /// Whether this lease is likely to be held or waited for.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().has(name)
    }

    /// Notes whether a reply showed this lease as held or waited for.
    pub(crate) fn found(&self, name: &str, is_contended: bool) {
        self.names().found(name, is_contended);
    }

    fn names(&self) -> MutexGuard<'_, Contended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
