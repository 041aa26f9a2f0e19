//! One manager's guesses about what its next commands will find. A wrong guess costs only time.

use std::sync::Arc;

use mongo_lease_core::rules::{FastForm, Guess, Guesses};

use crate::clock::Clock;
use crate::lock::Lock;

pub(crate) struct Hints {
    /// The leases that are likely to be held or waited for.
    pub(crate) contended: NameHint,
    /// The documents whose writes a transaction is likely to block.
    pub(crate) blocked: NameHint,
}

/// One guess, about each name. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct NameHint {
    guess: Guess,
    guesses: Arc<Lock<Guesses>>,
    clock: Clock,
}

impl Hints {
    /// Starts without history. The caller says whether first attempts may insert blindly.
    pub(crate) fn new(may_insert: bool, clock: &Clock) -> Hints {
        let guesses = Arc::new(Lock::new(Guesses::new(may_insert)));
        let about = |guess| NameHint { guess, guesses: Arc::clone(&guesses), clock: clock.clone() };
        Hints { contended: about(Guess::Contended), blocked: about(Guess::Blocked) }
    }

    /// The form of a call's first attempt at this lease.
    pub(crate) fn fast_form(&self, name: &str) -> FastForm {
        let now = self.contended.clock.now();
        self.contended.guesses.lock().fast_form(now, name)
    }

    pub(crate) fn found_a_document(&self) {
        self.contended.guesses.lock().found_a_document();
    }
}

impl NameHint {
    /// Whether the guess is likely to be true of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.guesses.lock().has(self.clock.now(), self.guess, name)
    }

    /// Notes that it is true of this name, or will be.
    pub(crate) fn found(&self, name: &str) {
        self.note(name, true);
    }

    /// Notes whether a command found it true of this name.
    pub(crate) fn note(&self, name: &str, is_true: bool) {
        self.guesses.lock().note(self.clock.now(), self.guess, name, is_true);
    }
}

#[cfg(test)]
mod tests {
    use mongo_lease_core::rules::FastForm;

    use super::Hints;
    use crate::clock::Clock;

    #[test]
    fn names_are_looked_up_after_an_insert_that_found_a_document() {
        let hints = Hints::new(true, &Clock::default());
        assert_eq!(hints.fast_form("a"), FastForm::Insert);
        hints.found_a_document();
        assert_eq!(hints.fast_form("b"), FastForm::LookUp);
    }
}
