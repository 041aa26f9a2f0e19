//! Which leases were recently not granted at once: predicts the next call's result.

use std::collections::HashSet;

/// The maximum number of names. Beyond it all are forgotten, because a wrong guess costs one command only.
pub const NAMES_MAX: usize = 10_000;

/// The names of leases that were held or had a queue at the last attempt.
#[derive(Clone, Debug, Default)]
pub struct Contended {
    names: HashSet<Box<str>>,
}

impl Contended {
    /// Whether the lease is likely to be held or to have a queue.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Stores the result of an attempt: whether the lease was held or had a queue.
    pub fn found(&mut self, name: &str, is_contended: bool) {
        if !is_contended {
            self.names.remove(name);
        } else if !self.names.contains(name) {
            if self.names.len() >= NAMES_MAX {
                self.names.clear();
            }
            self.names.insert(name.into());
        }
    }
}
