//! The types of the things that a command only copies and compares.

use std::fmt::Debug;
use std::hash::Hash;

/// The types of identities. The library has texts, and the model checker small numbers.
pub trait Types: Copy + Debug + Ord + Hash {
    /// A holder's value. Each acquire call has one, which no other call has unless its user chose it.
    type Value: Clone + Debug + Ord + Hash;
    /// The id of an acquire call.
    type CallId: Clone + Debug + Ord + Hash;
    /// The id of a grant. Each attempt of a call has its own, so that their grants can be distinguished.
    type GrantId: Clone + Debug + Ord + Hash;
    /// The label of a holder and its metadata, which people read.
    type Details: Clone + Debug + Eq + Hash;

    /// Whether a grant belongs to a call.
    fn is_of_call(grant: &Self::GrantId, call: &Self::CallId) -> bool;

    /// The value of a document without a holder. No call has it. On a server it is new each time, because other
    /// programs may have a unique index on `value`.
    fn nobody() -> Self::Value;

    /// The value of a document that several hold. No call has it, and it is always the same.
    fn shared() -> Self::Value;
}
