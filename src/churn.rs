//! What the handles of one manager know of the churn that they make: `rules::churn`, shared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::rules::churn::{self, Ask, End};

/// What one manager knows of its churn. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Churn(Arc<Mutex<churn::Churn>>);

impl Churn {
    /// Nothing has happened yet. Whether documents may be left behind, and names inserted, is the caller's to say.
    pub(crate) fn new(may_leave: bool, may_insert: bool) -> Churn {
        Churn(Arc::new(Mutex::new(churn::Churn::new(may_leave, may_insert))))
    }

    /// So many leases are to be ended, in one command.
    pub(crate) fn ends(&self, leases: usize) -> End {
        self.state().ends(clock::now(), leases)
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
