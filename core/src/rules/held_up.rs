//! Which documents were recently held up: predicts the next command's result.

use std::collections::HashMap;
use std::time::Duration;

use super::time::Instant;

/// The maximum number of names. Beyond it all are forgotten, because a wrong guess costs one short command only.
pub const NAMES_MAX: usize = 10_000;

/// How long a document counts as held up if no write to it follows. Most transactions are shorter.
pub const KEPT: Duration = Duration::from_secs(10);

/// The names of leases whose documents a transaction held up at our last write.
#[derive(Clone, Debug, Default)]
pub struct HeldUp {
    /// Each with the time when it was last found held up.
    names: HashMap<Box<str>, Instant>,
}

impl HeldUp {
    /// Whether this document is likely to be held up.
    pub fn has(&self, now: Instant, name: &str) -> bool {
        self.names.get(name).is_some_and(|found| now.since(*found) < KEPT)
    }

    /// A write to this document was held up.
    pub fn found(&mut self, now: Instant, name: &str) {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(name) {
            self.names.clear();
        }
        self.names.insert(name.into(), now);
    }

    /// A write to this document went through.
    pub fn went_through(&mut self, name: &str) {
        self.names.remove(name);
    }
}
