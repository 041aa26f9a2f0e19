//! Blind inserts: guesses which names are new, so that first attempts insert them.
//!
//! The server keeps deleted index entries for its history window. A look-up of a missing name walks over them to the
//! next live entry. Where releases leave tombstones instead of deleting, a first attempt at a name that most likely has
//! no document inserts one. An insert looks at the name itself only.
//!
//! This is a guess from the manager's own history. A wrong guess costs one command, and nothing else: the commands
//! check their own conditions.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::time::Instant;

/// How long a name is likely to have a document after an attempt at it. The TTL monitor runs once a minute, so it
/// removes a tombstone 30 s later on average.
const LIKELY: Duration = Duration::from_secs(30);

/// The maximum number of names kept. Two names may share a slot; then the older one is forgotten.
const PLACES: usize = 4096;

/// How many names are looked up after an insert that found a document.
const LOOKUPS_AFTER_HIT: u8 = 8;

/// The form of a first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastForm {
    /// The server looks for a document.
    LookUp,
    /// The server inserts a document, and refuses if there is one.
    Insert,
}

/// The names that one manager has sent attempts for.
#[derive(Clone, Debug)]
pub struct Churn {
    /// Whether blind inserts are allowed.
    may_insert: bool,
    /// The hashes of the names, and when each was used last. Empty before the first one.
    asked: Vec<Option<(u64, Instant)>>,
    /// How many more names are looked up, because an insert found a document.
    lookups_left: u8,
}

impl Churn {
    /// Without any experience. `may_insert`: whether an insert may be the first attempt at all.
    pub const fn new(may_insert: bool) -> Churn {
        Churn { may_insert, asked: Vec::new(), lookups_left: 0 }
    }

    /// Chooses the form of a call's first attempt.
    pub fn asks(&mut self, now: Instant, name: &str) -> FastForm {
        if !self.may_insert || self.was_asked_for(now, name) {
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

    /// Whether the name was used recently. Marks it as used now.
    fn was_asked_for(&mut self, now: Instant, name: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let hash = hasher.finish();
        self.asked.resize(PLACES, None);
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        let Some(place) = self.asked.get_mut(place) else {
            return false;
        };
        let before = place.replace((hash, now));
        before.is_some_and(|(other, at)| other == hash && now.since(at) < LIKELY)
    }
}
