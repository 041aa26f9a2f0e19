//! Which commands may be in progress at once.
//!
//! Acquires leave slots for commands that keep or free a lease, and releases leave slots for commands that keep one:
//! after an overload a process has thousands of releases to send, which would keep its renewals waiting for seconds.
//! Commands on blocked documents have few slots of their own, so a transaction that blocks a document delays only
//! commands on that document.
//!
//! 1. The number of commands in progress never exceeds the number of slots.
//! 2. With four slots or more, one stays free for [`Lane::Critical`], whatever the other lanes use.
//! 3. With four slots or more, releases and commands on blocked documents leave one free for [`Lane::Acquire`].
//! 4. A slot that is given back goes to the first lane of [`Lane::ALL`] that may have it. Releases may have each one
//!    that the lanes behind them may have, but for that of acquires. So these do not keep them waiting.

/// The class of a command, which decides the slots that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Commands that keep a lease or a place in a queue, reads that confirm a write, and pings.
    Critical,
    /// Commands that keep or free a lease whose document is known to be blocked.
    BlockedCritical,
    /// Commands that free a lease or a place in a queue.
    Release,
    /// New leases, and queries of leases.
    Acquire,
    /// The same for a document that is known to be blocked.
    BlockedAcquire,
}

impl Lane {
    /// All lanes, in the order in which waiting commands get a slot.
    pub const ALL: [Lane; 5] =
        [Lane::Critical, Lane::BlockedCritical, Lane::Release, Lane::Acquire, Lane::BlockedAcquire];

    /// The lane of the same kind for blocked documents.
    pub fn blocked(self) -> Lane {
        match self {
            Lane::Critical | Lane::BlockedCritical | Lane::Release => Lane::BlockedCritical,
            Lane::Acquire | Lane::BlockedAcquire => Lane::BlockedAcquire,
        }
    }

    /// Whether its commands make new leases.
    pub fn is_acquire(self) -> bool {
        self.blocked() == Lane::BlockedAcquire
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
        let left = if self.are_few() { 0 } else { self.left_by(lane) };
        let has_room =
            in_use + left < self.all && self.in_use[lane as usize] < self.slots_for(lane);
        self.in_use[lane as usize] += usize::from(has_room);
        has_room
    }

    /// Returns a slot that was taken for this lane.
    pub fn give_back(&mut self, lane: Lane) {
        let in_use = &mut self.in_use[lane as usize];
        *in_use = in_use.saturating_sub(1);
    }

    /// How many free slots this lane leaves for others that use none yet.
    fn left_by(self, lane: Lane) -> usize {
        let unused = |of: Lane| usize::from(self.in_use[of as usize] == 0);
        match lane {
            Lane::Critical => 0,
            Lane::Acquire => unused(Lane::Critical),
            Lane::Release | Lane::BlockedCritical | Lane::BlockedAcquire => {
                unused(Lane::Critical) + unused(Lane::Acquire)
            }
        }
    }

    fn slots_for(self, lane: Lane) -> usize {
        if self.are_few() {
            return self.all;
        }
        let blocked = (self.all / 8).max(1);
        // More than both lanes for blocked documents can have together.
        let reserved = self.all.div_ceil(4).max(2 * blocked + 1);
        match lane {
            Lane::Critical | Lane::Release => self.all,
            Lane::Acquire => self.all - reserved,
            Lane::BlockedCritical | Lane::BlockedAcquire => blocked,
        }
    }
}
