//! Which leases were not to be had at once lately: a guess at what the next call will find.

use std::collections::HashSet;

/// The most names that are kept. Beyond that everything is forgotten, for a wrong guess costs one command.
pub(crate) const NAMES_MAX: usize = 10_000;

/// The names of leases that somebody else had, or was in line for, when we last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contended {
    names: HashSet<Box<str>>,
}

impl Contended {
    /// Whether the lease is likely to be held, or waited for.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// What was found: somebody has it or waits for it, or nobody does.
    pub(crate) fn found(&mut self, name: &str, is_contended: bool) {
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
