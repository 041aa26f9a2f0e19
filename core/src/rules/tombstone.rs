//! Tombstones: the values of documents that outlive their holders.
//!
//! Such a value belongs to no holder: a late renewal or release matches nothing. It is new each time, so another
//! program's unique index on `value` accepts it.

/// The prefix of the `value` of a document that has outlived its holder.
pub const PREFIX: &str = "released:";

/// Whether a document with this value has outlived its holder.
pub fn is_tombstone(value: &str) -> bool {
    value.starts_with(PREFIX)
}

/// The values that one command writes: a fresh one for each of its statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneValues {
    randomness: String,
}

impl TombstoneValues {
    /// `randomness` must be fresh, and not used by any other command.
    pub const fn new(randomness: String) -> TombstoneValues {
        TombstoneValues { randomness }
    }

    /// The value for the statement at this index.
    pub fn of_statement(&self, place: usize) -> String {
        format!("{PREFIX}{}.{place}", self.randomness)
    }
}
