//! How much a run measures.

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

    /// The first words of a report, such as `A short run on 2 processors`.
    #[must_use]
    pub fn on_this_machine(self) -> String {
        let extent = if self.is_short { "A short run" } else { "A whole run" };
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        format!("{extent} on {processors} processors")
    }
}
