//! Churn: many leases that are held for a short time, and what it takes to stay quick then.
//!
//! The server keeps deleted index entries for its history window, and who looks for a name that is not there walks over
//! them to the next one that is alive. A delete does the same behind the entry that it has deleted. So under churn, and
//! only then, a lease is ended by leaving its document behind as free, for the server's TTL monitor; and who asks for a
//! name that has most likely no document inserts one, which looks at nothing but the name itself.
//!
//! All of it is guessed from what this manager did. A wrong guess costs time, and nothing else: what may be granted or
//! ended is said by the commands.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::time::Instant;

/// For how long the server keeps deleted entries, unless it is told otherwise.
const WINDOW: Duration = Duration::from_secs(300);

/// So many releases within the window are no churn: as many deleted entries cost a look-up half a millisecond at most,
/// and three or four releases a second.
pub(crate) const ENDS_MAX: usize = 1_000;

/// For how long a name that was asked for is likely to have a document. The TTL monitor goes round once in a minute, so
/// what is left behind is removed half a minute later, on average.
const LIKELY: Duration = Duration::from_secs(30);

/// How many names are kept, at most. Two may have one place; then the older one is forgotten.
const PLACES: usize = 4096;

/// How many names are looked up after an insert that has found a document.
const WARY: u8 = 8;

/// How a lease is ended for which nobody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its document is deleted.
    Delete,
    /// Its document is left behind, free for everybody.
    Leave,
}

/// How a lease is asked for at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The server looks whether there is a document.
    LookUp,
    /// It is told that there is none, and refuses where there is one.
    Insert,
}

/// What is known of the churn that this manager makes.
#[derive(Clone, Debug)]
pub(crate) struct Churn {
    /// Whether documents may be left behind at all.
    may_leave: bool,
    /// Whether names may be inserted without a look.
    may_insert: bool,
    /// When the newest leases ended, at most [`ENDS_MAX`] of them, the oldest first.
    ends: VecDeque<Instant>,
    /// The names that were asked for under churn, as hashes, and when. Empty before there was any.
    asked: Vec<Option<(u64, Instant)>>,
    /// How many names are still to be looked up, for an insert has found a document.
    wary: u8,
}

impl Churn {
    pub(crate) const fn new(may_leave: bool, may_insert: bool) -> Churn {
        Churn { may_leave, may_insert, ends: VecDeque::new(), asked: Vec::new(), wary: 0 }
    }

    /// So many leases are to be ended, in one command.
    pub(crate) fn ends(&mut self, now: Instant, leases: usize) -> End {
        let end = if self.may_leave && self.is_on(now) { End::Leave } else { End::Delete };
        for _ in 0..leases.min(ENDS_MAX) {
            if self.ends.len() == ENDS_MAX {
                self.ends.pop_front();
            }
            self.ends.push_back(now);
        }
        end
    }

    /// A lease is asked for, for the first time by this call.
    pub(crate) fn asks(&mut self, now: Instant, name: &str) -> Ask {
        if !self.may_insert || !self.is_on(now) {
            return Ask::LookUp;
        }
        if self.was_asked_for(now, name) {
            return Ask::LookUp;
        }
        if self.wary > 0 {
            self.wary -= 1;
            return Ask::LookUp;
        }
        Ask::Insert
    }

    /// An insert has found a document.
    pub(crate) fn found_a_document(&mut self) {
        self.wary = WARY;
    }

    fn is_on(&self, now: Instant) -> bool {
        let oldest = self.ends.front().filter(|_| self.ends.len() == ENDS_MAX);
        oldest.is_some_and(|&oldest| now.since(oldest) < WINDOW)
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
