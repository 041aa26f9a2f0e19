//! Guesses about names, by what one manager's commands have found: each predicts what its next command will find.
//!
//! A wrong guess costs one command, and nothing else: the commands check their own conditions.

use std::collections::HashMap;
use std::time::Duration;

use super::Instant;

/// The maximum number of names of one guess. Beyond it all of them are forgotten.
pub const NAMES_MAX: usize = 10_000;

/// How long a guess is good after it was last found true. Most transactions are shorter; and a tombstone is removed 30
/// s after its release on average.
pub const KEPT: Duration = Duration::from_secs(30);

/// How many names are looked up after an insert that found a document.
const LOOKUPS_AFTER_HIT: u8 = 8;

/// A guess about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// The lease is held or has a queue.
    Contended,
    /// A transaction blocks writes to the document.
    Blocked,
    /// The name has a document, because it was used.
    Used,
    /// Calls wait for the lease in its queue.
    Awaited,
}

/// The form of a first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastForm {
    /// The server looks for a document.
    LookUp,
    /// The server inserts a document, and refuses if there is one.
    Insert,
}

/// The names of which each guess was found true lately.
#[derive(Clone, Debug, Default)]
pub struct Guesses {
    /// By guess, each with the time when it was last found true.
    names: [HashMap<Box<str>, Instant>; 4],
    /// Whether a first attempt may insert blindly.
    may_insert: bool,
    /// How many more names are looked up, because an insert found a document.
    lookups_left: u8,
}

impl Guesses {
    /// Without any experience. `may_insert`: whether an insert may be the first attempt at all.
    pub fn new(may_insert: bool) -> Guesses {
        Guesses { may_insert, ..Guesses::default() }
    }

    /// Whether this is likely of the name.
    pub fn has(&self, now: Instant, guess: Guess, name: &str) -> bool {
        self.names[guess as usize].get(name).is_some_and(|found| now.since(*found) < KEPT)
    }

    /// Notes whether this was found true of the name.
    pub fn note(&mut self, now: Instant, guess: Guess, name: &str, is_true: bool) {
        let names = &mut self.names[guess as usize];
        if !is_true {
            names.remove(name);
        } else if let Some(found) = names.get_mut(name) {
            *found = now;
        } else {
            if names.len() >= NAMES_MAX {
                names.clear();
            }
            names.insert(name.into(), now);
        }
    }

    /// Chooses the form of a call's first attempt.
    ///
    /// A look-up of a missing name walks over the index entries that the server has deleted lately. So where releases
    /// leave tombstones, a name that most likely has no document is inserted: an insert looks at the name itself only.
    pub fn fast_form(&mut self, now: Instant, name: &str) -> FastForm {
        if !self.may_insert {
            return FastForm::LookUp;
        }
        let was_used = self.has(now, Guess::Used, name);
        self.note(now, Guess::Used, name, true);
        if was_used {
            return FastForm::LookUp;
        }
        if self.lookups_left > 0 {
            self.lookups_left -= 1;
            return FastForm::LookUp;
        }
        FastForm::Insert
    }

    /// An insert found a document.
    pub const fn found_a_document(&mut self) {
        self.lookups_left = LOOKUPS_AFTER_HIT;
    }
}
