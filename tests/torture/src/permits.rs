//! The permits of a call, and which calls may hold beside each other.

use serde::{Deserialize, Serialize};

/// The limit of a reader.
const READERS_MAX: u32 = 1_000;

/// The permits that a call asks for, and the most that may be in use while it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Permits {
    pub(crate) count: u32,
    pub(crate) limit: u32,
}

impl Permits {
    pub(crate) const EXCLUSIVE: Permits = Permits { count: 1, limit: 1 };
    pub(crate) const READER: Permits = Permits { count: 1, limit: READERS_MAX };

    /// Whether nobody fits beside it.
    pub(crate) fn is_exclusive(self) -> bool {
        self.limit == 1
    }

    pub(crate) fn is_reader(self) -> bool {
        self == Permits::READER
    }

    /// Whether the two can never hold at the same time.
    pub(crate) fn excludes(self, other: Permits) -> bool {
        !fit([self, other])
    }
}

impl Default for Permits {
    fn default() -> Permits {
        Permits::EXCLUSIVE
    }
}

/// The permits in use, and the smallest limit among these holders.
pub(crate) fn in_use(holders: impl IntoIterator<Item = Permits>) -> (u32, u32) {
    let add = |(used, limit): (u32, u32), one: Permits| (used + one.count, limit.min(one.limit));
    holders.into_iter().fold((0, READERS_MAX), add)
}

/// Whether these may hold at the same time: the permits in use are at most the smallest limit.
pub(crate) fn fit(holders: impl IntoIterator<Item = Permits>) -> bool {
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
