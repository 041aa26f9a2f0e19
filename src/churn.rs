//! Which names are new to one manager, for all of its handles: `rules::churn`, shared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::rules::churn::{self, Ask};

/// What one manager knows of the names that it asked for. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Churn(Arc<Mutex<churn::Churn>>);

impl Churn {
    /// Nothing has happened yet. The caller says whether names may be inserted.
    pub(crate) fn new(may_insert: bool) -> Churn {
        Churn(Arc::new(Mutex::new(churn::Churn::new(may_insert))))
    }

    /// A lease is asked for, for the first time by this call.
    pub(crate) fn asks(&self, name: &str) -> Ask {
        self.state().asks(clock::now(), name)
    }

    /// An insert has found a document.
    pub(crate) fn found_a_document(&self) {
        self.state().found_a_document();
    }

    fn state(&self) -> MutexGuard<'_, churn::Churn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
