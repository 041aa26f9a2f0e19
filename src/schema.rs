//! Names of collections and fields, and the two indexes: data.

/// The collection, unless the manager is told another.
pub(crate) const COLLECTION_DEFAULT: &str = "locks";

/// The lease's name: the whole contract with other programs is these three.
pub(crate) const NAME: &str = "name";
/// The holder's random value.
pub(crate) const VALUE: &str = "value";
/// When the lease runs out, by the server's clock.
pub(crate) const EXPIRES_AT: &str = "expiresAt";
/// What we know of the holder. It speaks of the holder only while its `value` is the document's.
pub(crate) const GRANT: &str = "grant";

/// Who waits, in order: a list of entries. Absent, or empty, when nobody does.
pub(crate) const QUEUE: &str = "queue";
/// The entry that was promoted last and the echo of its clock, in one text that is never the same twice: a change event
/// carries a text whole, where of a document it carries what is new.
pub(crate) const PROMOTED: &str = "promoted";

/// Fields of [`GRANT`].
pub(crate) mod grant {
    /// The value that was granted.
    pub(crate) const VALUE: &str = "value";
    /// The call and the number of the attempt that was granted.
    pub(crate) const ID: &str = "id";
    /// The holder's own clock when it sent for what it has, in nanoseconds.
    pub(crate) const SENT: &str = "sent";
    /// `label@host:pid`.
    pub(crate) const OWNER: &str = "owner";
    /// The server's clock at the grant.
    pub(crate) const ACQUIRED_AT: &str = "acquiredAt";
    /// The ttl in milliseconds.
    pub(crate) const TTL_MS: &str = "ttlMs";
    /// What the server adds to the ttl, in milliseconds.
    pub(crate) const MAX_CLOCK_SKEW_MS: &str = "allowanceMs";
    /// The holder's metadata.
    pub(crate) const META: &str = "meta";
    /// The number of our writes, so that none of them is a no-op.
    pub(crate) const WRITES: &str = "n";
    /// Standalone servers only: the timestamp of a grant.
    pub(crate) const TICK: &str = "tick";
}

/// Fields of an entry in the [`QUEUE`].
pub(crate) mod entry {
    /// The value that is to be granted.
    pub(crate) const VALUE: &str = "value";
    /// The call and the number of the attempt that joined: the grant's id, once it is promoted.
    pub(crate) const ID: &str = "id";
    /// The waiter's own clock when it sent the newest sign of life, in nanoseconds.
    pub(crate) const SENT: &str = "sent";
    /// The server's clock when that came.
    pub(crate) const BEAT_AT: &str = "beatAt";
    /// Until when the entry counts.
    pub(crate) const EXPIRES_AT: &str = "expiresAt";
    /// The ttl in milliseconds.
    pub(crate) const TTL_MS: &str = "ttlMs";
    /// What the server adds to the ttl, in milliseconds.
    pub(crate) const MAX_CLOCK_SKEW_MS: &str = "allowanceMs";
    /// `label@host:pid`.
    pub(crate) const OWNER: &str = "owner";
    /// The waiter's metadata.
    pub(crate) const META: &str = "meta";
}

/// An index that a collection must have before leases are kept in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexSpec {
    /// The name under which it is created. An existing index may have another name.
    pub name: &'static str,
    /// Its only key, ascending.
    pub key: &'static str,
    /// Whether it is unique.
    pub unique: bool,
    /// Its `expireAfterSeconds`, for a TTL index.
    pub expire_after_seconds: Option<i64>,
}

/// One document a name: without it, two upserts can both win.
const UNIQUE_NAME: IndexSpec =
    IndexSpec { name: "name_1", key: NAME, unique: true, expire_after_seconds: None };

/// What is left behind by a crash goes away.
const TTL_EXPIRES_AT: IndexSpec = IndexSpec {
    name: "expiresAt_1",
    key: EXPIRES_AT,
    unique: false,
    expire_after_seconds: Some(0),
};

/// The two indexes of a collection of leases, in the order in which they are created: a unique one on `name`, without
/// which two processes can be granted the same lease, and a TTL index on `expiresAt`, which removes what a crash leaves
/// behind.
pub const SPECS: [IndexSpec; 2] = [UNIQUE_NAME, TTL_EXPIRES_AT];
