//! Blind inserts: which names are new, so that a first attempt inserts them without a look.
//!
//! The server keeps deleted index entries for its history window, and a look-up of a name that is not there walks over
//! them to the next one that is alive. Where releases make tombstones instead of deleting, a first attempt at a name
//! that has most likely no document inserts one, which looks at nothing but the name itself.
//!
//! All of it is guessed from what this manager did. A wrong guess costs a command, and nothing else: the commands say
//! what may be granted.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::time::Instant;

/// For how long a name that was asked for is likely to have a document. The TTL monitor goes round once in a minute, so
/// a tombstone is removed half a minute later, on average.
const LIKELY: Duration = Duration::from_secs(30);

/// How many names are kept, at most. Two may have one place; then the older one is forgotten.
const PLACES: usize = 4096;

/// How many names are looked up after an insert that has found a document.
const WARY: u8 = 8;

/// How a lease is asked for at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastForm {
    /// The server looks whether there is a document.
    LookUp,
    /// It is told that there is none, and refuses where there is one.
    Insert,
}

/// What one manager knows of the names that it asked for.
#[derive(Clone, Debug)]
pub(crate) struct Churn {
    /// Whether names may be inserted without a look.
    may_insert: bool,
    /// The names that were asked for, as hashes, and when. Empty before there was any.
    asked: Vec<Option<(u64, Instant)>>,
    /// How many names are still to be looked up, for an insert has found a document.
    wary: u8,
}

impl Churn {
    pub(crate) const fn new(may_insert: bool) -> Churn {
        Churn { may_insert, asked: Vec::new(), wary: 0 }
    }

    /// A lease is asked for, for the first time by this call.
    pub(crate) fn asks(&mut self, now: Instant, name: &str) -> FastForm {
        if !self.may_insert || self.was_asked_for(now, name) {
            return FastForm::LookUp;
        }
        if self.wary > 0 {
            self.wary -= 1;
            return FastForm::LookUp;
        }
        FastForm::Insert
    }

    /// An insert has found a document.
    pub(crate) const fn found_a_document(&mut self) {
        self.wary = WARY;
    }

    /// Whether the name was asked for lately; from now on it was.
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
