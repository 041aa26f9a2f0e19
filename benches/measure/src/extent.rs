//! How much a run measures.

use crate::host;

/// How much a run measures: all of it, or less for a first impression.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    is_short: bool,
}

impl Extent {
    /// A whole run, or a short one.
    #[must_use]
    pub fn new(is_short: bool) -> Extent {
        Extent { is_short }
    }

    /// `whole` in a whole run, and `short` in a short one.
    #[must_use]
    pub fn of(self, whole: usize, short: usize) -> usize {
        if self.is_short { short } else { whole }
    }

    /// Whether it measures less.
    #[must_use]
    pub fn is_short(self) -> bool {
        self.is_short
    }

    /// The first words of a report, such as `A short run on 2 processors`.
    #[must_use]
    pub fn on_this_machine(self) -> String {
        let extent = if self.is_short { "A short run" } else { "A whole run" };
        format!("{extent} on {} processors", host::processors())
    }
}
