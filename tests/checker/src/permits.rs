//! The permits of a call, and which calls may hold beside each other.

use serde::{Deserialize, Serialize};

/// The limit of a reader.
const READERS_MAX: u32 = 1_000;

/// The permits that a call asks for, and the most that may be in use while it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Permits {
    /// How many it asks for.
    pub count: u32,
    /// The most that may be in use.
    pub limit: u32,
}

impl Permits {
    /// An exclusive lease.
    pub const EXCLUSIVE: Permits = Permits { count: 1, limit: 1 };
    /// A reader's.
    pub const READER: Permits = Permits { count: 1, limit: READERS_MAX };

    /// Whether nobody fits beside it.
    pub fn is_exclusive(self) -> bool {
        self.limit == 1
    }

    /// Whether it is a reader's.
    pub fn is_reader(self) -> bool {
        self == Permits::READER
    }

    /// Whether the two can never hold at the same time.
    pub fn excludes(self, other: Permits) -> bool {
        !fit([self, other])
    }
}

impl Default for Permits {
    fn default() -> Permits {
        Permits::EXCLUSIVE
    }
}

/// The permits in use, and the smallest limit among these holders.
pub fn in_use(holders: impl IntoIterator<Item = Permits>) -> (u32, u32) {
    let add = |(used, limit): (u32, u32), one: Permits| (used + one.count, limit.min(one.limit));
    holders.into_iter().fold((0, READERS_MAX), add)
}

/// Whether these may hold at the same time: the permits in use are at most the smallest limit.
pub fn fit(holders: impl IntoIterator<Item = Permits>) -> bool {
    let (used, limit) = in_use(holders);
    used <= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts() {
        let of = |count, limit| Permits { count, limit };
        assert!(fit([]) && fit([of(3, 3)]) && fit([of(2, 5), of(1, 3)]));
        assert!(!fit([of(3, 5), of(1, 3)]), "four are in use");
        assert!(fit([Permits::READER; 1_000]) && !fit([Permits::READER; 1_001]));
        assert!(Permits::READER.excludes(Permits::EXCLUSIVE));
        assert!(Permits::READER.excludes(of(5, 5)) && !Permits::READER.excludes(of(4, 5)));
        assert!(of(3, 5).excludes(of(3, 5)) && !of(3, 5).excludes(of(2, 5)));
    }
}
