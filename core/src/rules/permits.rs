//! Permits: the bounds of a request, and how many holders fit together.
//!
//! Holders fit together if their permits are at most the smallest limit among them. An exclusive lease is one permit
//! under the limit 1, a shared one is one permit under the largest limit.

/// The largest limit. It bounds the holders of a lease, and so the size of its document.
pub const LIMIT_MAX: u32 = 1_000;

/// The permits that a call asks for, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permits {
    count: u32,
    limit: u32,
}

/// Why a request for permits is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitsDefect {
    /// The limit is out of range.
    Limit(u32),
    /// The call asks for no permit, or for more than may be in use.
    Count {
        /// The requested permits.
        count: u32,
        /// The requested limit.
        limit: u32,
    },
}

impl Permits {
    /// An exclusive lease.
    pub const EXCLUSIVE: Permits = Permits { count: 1, limit: 1 };
    /// A shared lease.
    pub const SHARED: Permits = Permits { count: 1, limit: LIMIT_MAX };

    /// Checks a request for `count` permits, of which at most `limit` may be in use.
    pub const fn new(count: u32, limit: u32) -> Result<Permits, PermitsDefect> {
        if limit == 0 || limit > LIMIT_MAX {
            Err(PermitsDefect::Limit(limit))
        } else if count == 0 || count > limit {
            Err(PermitsDefect::Count { count, limit })
        } else {
            Ok(Permits { count, limit })
        }
    }

    /// How many permits.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The most permits that may be in use while these are held.
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// How many calls of one process that ask for this wait in the queue at the same time. With one, a process would
    /// get one of its readers in between two writers. With more than the limit, some could not be admitted together.
    pub fn active_calls(self) -> u32 {
        self.limit.min(ACTIVE_CALLS_MAX)
    }

    /// Whether nobody fits beside it. Then the call uses the commands of exclusive leases.
    pub const fn is_exclusive(self) -> bool {
        self.limit == 1
    }
}

/// The most calls of one process that have entries of their own in the queue of one lease.
const ACTIVE_CALLS_MAX: u32 = 16;

/// How many of a queue fit beside these holders, strictly in order: the first one that does not fit blocks the others.
///
/// Zero where the holders themselves do not fit together. In the library the server decides this; the model checker and
/// the tests judge by it.
pub fn fitting(holders: &[Permits], queue: &[Permits]) -> usize {
    let mut together = holders.to_vec();
    let fits = |next: &&Permits| {
        together.push(**next);
        fit_together(&together)
    };
    queue.iter().take_while(fits).count()
}

/// Whether these may hold at the same time.
pub fn fit_together(holders: &[Permits]) -> bool {
    let in_use: u64 = holders.iter().map(|holder| u64::from(holder.count)).sum();
    holders.iter().all(|holder| in_use <= u64::from(holder.limit))
}
