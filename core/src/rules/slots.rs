//! Which commands may be in progress at once.
//!
//! Acquires leave slots for commands that keep or free a lease. Commands on blocked documents have few slots of their
//! own, so a transaction that blocks a document delays only commands on that document.
//!
//! 1. The number of commands in progress never exceeds the number of slots.
//! 2. With four slots or more, one stays free for [`Lane::Critical`], whatever the other lanes use.

/// The class of a command, which decides the slots that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Commands that keep or free a lease, and pings.
    Critical,
    /// The same for a document that is known to be blocked.
    BlockedCritical,
    /// New leases, and queries of leases.
    Acquire,
    /// The same for a document that is known to be blocked.
    BlockedAcquire,
}

impl Lane {
    /// All lanes, in the order in which waiting commands get a slot.
    pub const ALL: [Lane; 4] =
        [Lane::Critical, Lane::BlockedCritical, Lane::Acquire, Lane::BlockedAcquire];

    /// The lane of the same kind for blocked documents.
    pub fn blocked(self) -> Lane {
        match self {
            Lane::Critical | Lane::BlockedCritical => Lane::BlockedCritical,
            Lane::Acquire | Lane::BlockedAcquire => Lane::BlockedAcquire,
        }
    }
}

/// With fewer slots, lanes are not separated.
pub const LANES_MIN: usize = 4;

/// The slots of one manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    all: usize,
    in_use: [usize; Lane::ALL.len()],
}

impl Slots {
    /// Creates this many free slots.
    pub const fn new(all: usize) -> Slots {
        Slots { all, in_use: [0; Lane::ALL.len()] }
    }

    /// Whether there are too few slots for lanes: then attempts must be short.
    pub const fn are_few(self) -> bool {
        self.all < LANES_MIN
    }

    /// Takes a slot. Returns false if this lane can have none now.
    #[must_use]
    pub fn occupy(&mut self, lane: Lane) -> bool {
        let in_use: usize = self.in_use.iter().sum();
        let has_room = in_use < self.all && self.in_use[lane as usize] < self.slots_for(lane);
        self.in_use[lane as usize] += usize::from(has_room);
        has_room
    }

    /// Returns a slot that was taken for this lane.
    pub fn give_back(&mut self, lane: Lane) {
        let in_use = &mut self.in_use[lane as usize];
        *in_use = in_use.saturating_sub(1);
    }

    fn slots_for(self, lane: Lane) -> usize {
        if self.are_few() {
            return self.all;
        }
        let blocked = (self.all / 8).max(1);
        // More than both lanes for blocked documents can have together.
        let reserved = self.all.div_ceil(4).max(2 * blocked + 1);
        match lane {
            Lane::Critical => self.all,
            Lane::Acquire => self.all - reserved,
            Lane::BlockedCritical | Lane::BlockedAcquire => blocked,
        }
    }
}
