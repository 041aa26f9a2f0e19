//! The promises.

/// A promise that the checker tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// No two valid exclusive holds of one name overlap.
    Exclusion,
    /// No more permits are in use than the smallest limit of their holders.
    Limit,
    /// No valid share overlaps with a valid exclusive hold of the same name.
    Sharing,
    /// Tokens rise strictly in the order of the grants that exclude each other.
    Tokens,
    /// Each token is a time, in the oplog, at which its holder held the lease.
    TokenTimes,
    /// The resource never accepts a write of an earlier grant after one of a later grant, where one is exclusive.
    Fence,
    /// A transaction under a lease commits only while its grant is in the document, and its caller is told the truth.
    Transactions,
    /// No holder believes for longer than the document says.
    Belief,
    /// No grant is removed or handed off under a holder that believes.
    Removal,
    /// No lease is acquired before it has expired.
    TakeOver,
    /// The expiry of a grant never falls.
    Expiry,
    /// The holders in a document fit, and it expires with the last of them.
    Records,
    /// The lease of a dead process is free within ttl, maximum clock skew and a bound.
    Abandoned,
    /// Each wait ends by its deadline.
    Deadline,
    /// After an overload, a call for a lease that nobody has is granted within its wait.
    Recovery,
    /// The order of the queue is kept.
    Order,
    /// The first waiter does not stay in the queue beside holders with whom it fits.
    Gap,
    /// No waiting call waits for longer than the holders and waiters before it explain.
    Progress,
    /// Nothing is left over.
    LeftOver,
}

impl Invariant {
    /// All of them, in the order of the tables.
    pub const ALL: [Invariant; 19] = [
        Invariant::Exclusion,
        Invariant::Limit,
        Invariant::Sharing,
        Invariant::Tokens,
        Invariant::TokenTimes,
        Invariant::Fence,
        Invariant::Transactions,
        Invariant::Belief,
        Invariant::Removal,
        Invariant::TakeOver,
        Invariant::Expiry,
        Invariant::Records,
        Invariant::Abandoned,
        Invariant::Deadline,
        Invariant::Recovery,
        Invariant::Order,
        Invariant::Gap,
        Invariant::Progress,
        Invariant::LeftOver,
    ];

    /// Whether it needs clocks within their promised bound.
    pub(super) fn rests_on_clocks(self) -> bool {
        match self {
            Invariant::Exclusion
            | Invariant::Limit
            | Invariant::Sharing
            | Invariant::Belief
            | Invariant::Removal
            | Invariant::Abandoned
            | Invariant::Gap
            | Invariant::Progress => true,
            Invariant::Tokens
            | Invariant::TokenTimes
            | Invariant::Fence
            | Invariant::Transactions
            | Invariant::TakeOver
            | Invariant::Expiry
            | Invariant::Records
            | Invariant::Deadline
            | Invariant::Recovery
            | Invariant::Order
            | Invariant::LeftOver => false,
        }
    }

    /// The promise in words.
    pub fn words(self) -> &'static str {
        match self {
            Invariant::Exclusion => "no two valid exclusive holds of one name overlap",
            Invariant::Limit => "no more permits are in use than the smallest limit of the holders",
            Invariant::Sharing => "no share is held beside an exclusive lease",
            Invariant::Tokens => "tokens increase with the grants that exclude each other",
            Invariant::TokenTimes => "each token is a time at which its holder held the lease",
            Invariant::Fence => {
                "the resource accepts no write of an earlier grant after one of a later grant"
            }
            Invariant::Transactions => {
                "a transaction commits only while its lease is held, and its result is true"
            }
            Invariant::Belief => "no holder relies on its lease for longer than the document says",
            Invariant::Removal => "no lease is removed or handed off while its holder relies on it",
            Invariant::TakeOver => "no lease is acquired before it has expired",
            Invariant::Expiry => "`expiresAt` never falls for one grant",
            Invariant::Records => {
                "the holders in a document fit, and it expires with the last of them"
            }
            Invariant::Abandoned => "a lease of a dead process becomes free in time",
            Invariant::Deadline => "each wait ends by its deadline",
            Invariant::Recovery => "after an overload, a free lease is granted in time",
            Invariant::Order => "the order of the queue is kept",
            Invariant::Gap => "no first waiter stays in the queue although it fits",
            Invariant::Progress => {
                "no call waits for longer than the holders and waiters before it explain"
            }
            Invariant::LeftOver => "no document, task, socket or cursor is left over",
        }
    }
}
