//! The specification's types with small numbers, which random steps hit again and again.

use crate::spec::{self, Types};

/// Small numbers as identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Small;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Value(pub(super) u8);

/// An acquire call, and the number of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GrantId {
    pub(super) call: u8,
    pub(super) attempt: u8,
}

/// Which owner and which metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Details(pub(super) u8);

impl Types for Small {
    type Value = Value;
    type CallId = u8;
    type GrantId = GrantId;
    type Details = Details;

    fn is_of_call(grant: &GrantId, call: &u8) -> bool {
        grant.call == *call
    }

    fn nobody() -> Value {
        Value(u8::MAX)
    }

    fn shared() -> Value {
        Value(u8::MAX - 1)
    }
}

pub(super) type AcquireAnswer = spec::AcquireAnswer<Small>;
pub(super) type AcquireAttempt = spec::AcquireAttempt<Small>;
pub(super) type Document = spec::Document<Small>;
pub(super) type Element = spec::Element<Small>;
pub(super) type Entry = spec::Entry<Small>;
pub(super) type Grant = spec::Grant<Small>;
pub(super) type GrantMatch = spec::GrantMatch<Small>;
pub(super) type Key = spec::OwnGrant<Small>;
pub(super) type Promoted = spec::Promoted<Small>;
pub(super) type Queue = spec::Queue<Small>;
