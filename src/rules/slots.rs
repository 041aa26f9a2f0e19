//! Which commands may be under way at once.
//!
//! Acquires leave room for what keeps or frees a lease, and commands about held-up documents have few slots of their
//! own: a transaction that holds a document up delays nobody who does not need that document. Invariants:
//!
//! 1. Never more commands are under way than there are slots.
//! 2. With four slots or more, one is left for a command of [`Lane::Critical`] whatever the other lanes have.

/// Which slots a command may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Commands that keep or free a lease, and pings.
    Critical,
    /// The same for a document that is known to be held up.
    HeldUpCritical,
    /// New leases and looks at them.
    Acquire,
    /// The same for a document that is known to be held up.
    HeldUpAcquire,
}

impl Lane {
    /// All lanes, in the order in which waiting commands get a slot.
    pub(crate) const ALL: [Lane; 4] =
        [Lane::Critical, Lane::HeldUpCritical, Lane::Acquire, Lane::HeldUpAcquire];

    /// The lane of the same kind for a document that is known to be held up.
    pub(crate) fn held_up(self) -> Lane {
        match self {
            Lane::Critical | Lane::HeldUpCritical => Lane::HeldUpCritical,
            Lane::Acquire | Lane::HeldUpAcquire => Lane::HeldUpAcquire,
        }
    }
}

/// With fewer slots there is no room for lanes.
pub(crate) const LANES_MIN: usize = 4;

/// The slots of one manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    all: usize,
    in_use: [usize; Lane::ALL.len()],
}

impl Slots {
    /// So many slots, all of them free.
    pub(crate) const fn new(all: usize) -> Slots {
        Slots { all, in_use: [0; Lane::ALL.len()] }
    }

    /// Whether there are too few slots for lanes: then attempts have to be short.
    pub(crate) const fn are_few(self) -> bool {
        self.all < LANES_MIN
    }

    /// Takes a slot. False when there is none for this lane.
    #[must_use]
    pub(crate) fn occupy(&mut self, lane: Lane) -> bool {
        let in_use: usize = self.in_use.iter().sum();
        let has_room = in_use < self.all && self.in_use[lane as usize] < self.limit(lane);
        self.in_use[lane as usize] += usize::from(has_room);
        has_room
    }

    /// Gives back a slot that was taken for this lane.
    pub(crate) fn give_back(&mut self, lane: Lane) {
        let in_use = &mut self.in_use[lane as usize];
        *in_use = in_use.saturating_sub(1);
    }

    fn limit(self, lane: Lane) -> usize {
        if self.are_few() {
            return self.all;
        }
        let held_up = (self.all / 8).max(1);
        // More than both lanes for held-up documents can have.
        let reserved = self.all.div_ceil(4).max(2 * held_up + 1);
        match lane {
            Lane::Critical => self.all,
            Lane::Acquire => self.all - reserved,
            Lane::HeldUpCritical | Lane::HeldUpAcquire => held_up,
        }
    }
}
