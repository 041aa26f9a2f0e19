//! Which documents were found held up lately: a guess at what the next command will find.

use std::collections::HashMap;
use std::time::Duration;

use super::time::Instant;

/// The most names that are kept. Beyond that everything is forgotten, for a wrong guess costs one short command.
pub(crate) const NAMES_MAX: usize = 10_000;

/// For how long a document counts as held up that nobody has written to since. Most transactions are shorter.
pub(crate) const KEPT: Duration = Duration::from_secs(10);

/// The names of leases whose documents a transaction held up when we last wrote to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldUp {
    /// Each with when it was found last.
    names: HashMap<Box<str>, Instant>,
}

impl HeldUp {
    /// Whether this document is likely to be held up.
    pub(crate) fn has(&self, now: Instant, name: &str) -> bool {
        self.names.get(name).is_some_and(|found| now.since(*found) < KEPT)
    }

    /// A write to this document did not go through.
    pub(crate) fn found(&mut self, now: Instant, name: &str) {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(name) {
            self.names.clear();
        }
        self.names.insert(name.into(), now);
    }

    /// A write to this document went through.
    pub(crate) fn went_through(&mut self, name: &str) {
        self.names.remove(name);
    }
}
