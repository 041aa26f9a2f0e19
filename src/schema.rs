//! The names of collections and fields, and the two indexes. Data only.

/// The default collection.
pub(crate) const COLLECTION_DEFAULT: &str = "locks";

/// The lease's name. This field and the next two are the whole contract with other programs.
pub(crate) const NAME: &str = "name";
/// The holder's random value.
pub(crate) const VALUE: &str = "value";
/// When the lease runs out, by the server's clock.
pub(crate) const EXPIRES_AT: &str = "expiresAt";
/// This crate's data on the holder. Valid only while its `value` equals the document's.
pub(crate) const GRANT: &str = "grant";

/// The queue of waiters: a list of entries. Absent or empty if no call waits.
pub(crate) const QUEUE: &str = "queue";
/// The last promoted entry and the echo of its clock, as one unique string. A change event carries a changed string as
/// a whole, but of a changed subdocument only the fields that are new.
pub(crate) const PROMOTED: &str = "promoted";

/// The holders of a lease in shared use: a list. Valid only while [`VALUE`] is [`SHARED_VALUE`].
pub(crate) const HOLDERS: &str = "holders";
/// The waiters that the last write admitted to shared use, as one string. A change event carries it as a whole.
pub(crate) const ADMITTED: &str = "admitted";
/// The value of a document that several hold at once. No holder has it.
pub(crate) const SHARED_VALUE: &str = "mongo-lease/shared";

/// Fields of [`GRANT`].
pub(crate) mod grant {
    /// The granted value.
    pub(crate) const VALUE: &str = "value";
    /// The id of the grant: the call and the number of its granted attempt.
    pub(crate) const ID: &str = "id";
    /// The holder's own clock when it sent the newest granting or renewing command, in nanoseconds.
    pub(crate) const SENT: &str = "sent";
    /// `label@host:pid`.
    pub(crate) const OWNER: &str = "owner";
    /// The server's clock at the grant.
    pub(crate) const ACQUIRED_AT: &str = "acquiredAt";
    /// The ttl in milliseconds.
    pub(crate) const TTL_MS: &str = "ttlMs";
    /// The maximum clock skew, which the server adds to the ttl, in milliseconds.
    pub(crate) const MAX_CLOCK_SKEW_MS: &str = "allowanceMs";
    /// The holder's metadata.
    pub(crate) const META: &str = "meta";
    /// A count of our writes, so that no write is a no-op.
    pub(crate) const WRITES: &str = "n";
    /// The timestamp of the grant. On standalone servers only.
    pub(crate) const STANDALONE_TOKEN: &str = "tick";
}

/// Fields of an entry in the [`QUEUE`].
pub(crate) mod entry {
    /// The value that a promotion grants.
    pub(crate) const VALUE: &str = "value";
    /// The call and the attempt that joined. After a promotion, the id of the grant.
    pub(crate) const ID: &str = "id";
    /// The waiter's own clock when it sent the newest heartbeat, in nanoseconds.
    pub(crate) const SENT: &str = "sent";
    /// The server's clock when the heartbeat arrived.
    pub(crate) const HEARTBEAT_AT: &str = "beatAt";
    /// When the entry expires.
    pub(crate) const EXPIRES_AT: &str = "expiresAt";
    /// The ttl in milliseconds.
    pub(crate) const TTL_MS: &str = "ttlMs";
    /// The maximum clock skew, which the server adds to the ttl, in milliseconds.
    pub(crate) const MAX_CLOCK_SKEW_MS: &str = "allowanceMs";
    /// `label@host:pid`.
    pub(crate) const OWNER: &str = "owner";
    /// The waiter's metadata.
    pub(crate) const META: &str = "meta";
    /// The permits that the waiter asks for. Absent if it asks for an exclusive lease.
    pub(crate) const PERMITS: &str = "permits";
    /// The limit under which it asks. Absent if it asks for an exclusive lease.
    pub(crate) const LIMIT: &str = "limit";
}

/// Fields of a holder in [`HOLDERS`].
pub(crate) mod holder {
    /// The granted value.
    pub(crate) const VALUE: &str = "value";
    /// The id of the grant.
    pub(crate) const ID: &str = "id";
    /// The holder's own clock when it sent the newest granting or renewing command, in nanoseconds.
    pub(crate) const SENT: &str = "sent";
    /// `label@host:pid`.
    pub(crate) const OWNER: &str = "owner";
    /// The server's clock at the grant.
    pub(crate) const ACQUIRED_AT: &str = "acquiredAt";
    /// When the grant runs out.
    pub(crate) const EXPIRES_AT: &str = "expiresAt";
    /// The ttl in milliseconds.
    pub(crate) const TTL_MS: &str = "ttlMs";
    /// The maximum clock skew, which the server adds to the ttl, in milliseconds.
    pub(crate) const MAX_CLOCK_SKEW_MS: &str = "allowanceMs";
    /// The holder's metadata.
    pub(crate) const META: &str = "meta";
    /// The permits that it has.
    pub(crate) const PERMITS: &str = "permits";
    /// The most permits that may be in use while it holds.
    pub(crate) const LIMIT: &str = "limit";
    /// A count of our writes, so that no write is a no-op.
    pub(crate) const WRITES: &str = "n";
}

/// An index that a collection must have before it can hold leases.
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

/// One document per name: without this index, two upserts can both win.
const UNIQUE_NAME: IndexSpec =
    IndexSpec { name: "name_1", key: NAME, unique: true, expire_after_seconds: None };

/// Removes the documents that crashed holders leave.
const TTL_EXPIRES_AT: IndexSpec = IndexSpec {
    name: "expiresAt_1",
    key: EXPIRES_AT,
    unique: false,
    expire_after_seconds: Some(0),
};

/// The two required indexes, in the order in which they are created.
///
/// Without the unique index on `name`, two processes can be granted the same lease. The TTL index on `expiresAt`
/// removes the documents that crashed holders leave.
pub const SPECS: [IndexSpec; 2] = [UNIQUE_NAME, TTL_EXPIRES_AT];
