//! Guesses of one manager about what its next commands will find. A wrong one costs time, and nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::rules::churn::{Churn, FastForm};
use crate::rules::contended::Contended;
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

/// Which names are new to this manager: these are inserted without a look-up, where releases make tombstones.
#[derive(Debug)]
pub(crate) struct NewNames(Mutex<Churn>);

impl NewNames {
    /// Nothing has happened yet. The caller says whether names may be inserted.
    pub(crate) fn new(may_insert: bool) -> NewNames {
        NewNames(Mutex::new(Churn::new(may_insert)))
    }

    /// The form of a call's first attempt at this lease.
    pub(crate) fn form(&self, name: &str) -> FastForm {
        self.names().asks(clock::now(), name)
    }

    /// An insert found a document.
    pub(crate) fn found_a_document(&self) {
        self.names().found_a_document();
    }

    fn names(&self) -> MutexGuard<'_, Churn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which leases were lately held by others or waited for.
#[derive(Debug, Default)]
pub(crate) struct ContendedNames(Mutex<Contended>);

impl ContendedNames {
    /// Whether this lease is likely to be held or waited for.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().has(name)
    }

    /// What a reply said of this lease.
    pub(crate) fn found(&self, name: &str, is_contended: bool) {
        self.names().found(name, is_contended);
    }

    fn names(&self) -> MutexGuard<'_, Contended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
