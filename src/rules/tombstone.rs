//! Tombstones: the values of documents that outlive their holders.
//!
//! Such a value is nobody's: a renewal or a release that comes late matches nothing. It is new each time, so that
//! another program's unique index on `value` takes it.

/// With what the `value` of a document begins that outlives its holder.
pub(crate) const PREFIX: &str = "released:";

/// Whether a document with this value has outlived its holder. No holder has such a value.
pub(crate) fn is_tombstone(value: &str) -> bool {
    value.starts_with(PREFIX)
}

/// The values that one command leaves in documents: one for each of its statements, and none of them ever used before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TombstoneValues {
    randomness: String,
}

impl TombstoneValues {
    /// `randomness` is fresh, and of no other command.
    pub(crate) const fn new(randomness: String) -> TombstoneValues {
        TombstoneValues { randomness }
    }

    /// The value for the statement at this place.
    pub(crate) fn of_statement(&self, place: usize) -> String {
        format!("{PREFIX}{}.{place}", self.randomness)
    }
}
