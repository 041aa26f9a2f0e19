//! The names of the fields. Data only.
//!
//! `docs/format.md` in the repository describes the fields for programs in other languages: types, units, who writes
//! them, who may rely on them, and how the format may change.

/// The lease's name. This field and the next two are the whole contract with other programs.
pub const NAME: &str = "name";
/// The holder's random value.
pub const VALUE: &str = "value";
/// When the lease runs out, by the server's clock.
pub const EXPIRES_AT: &str = "expiresAt";
/// This crate's data on the holder. Valid only while its `value` equals the document's.
pub const GRANT: &str = "grant";

/// The queue of waiters: a list of entries. Absent or empty if no call waits.
pub const QUEUE: &str = "queue";
/// The newest message to a waiter, as one text that is new each time. A change event carries a changed text as a whole,
/// but of a changed subdocument only the fields that are new.
///
/// ```text
/// promoted = grant "@" ( echo / "!" now [ "-" until ] )
/// grant    = the id of the entry, which may contain "@": it ends at the last one
/// echo     = 1*digit          ; microseconds of the waiter's own clock: the entry was granted the lease
/// now      = [ "-" ] 1*digit  ; milliseconds of the server's clock: the waiter should send an attempt
/// until    = [ "-" ] 1*digit  ; the same, of the new expiry of a lease that several hold
/// ```
pub const PROMOTED: &str = "promoted";

/// The holders of a lease that several hold: a list. Valid only while [`VALUE`] is [`SHARED_VALUE`].
pub const HOLDERS: &str = "holders";
/// The waiters that the last such write admitted beside other holders, as one text.
///
/// ```text
/// admitted  = admission *( " " admission )
/// admission = grant "@" echo "@" until    ; each as in `promoted`, `until` being the expiry of this grant
/// ```
pub const ADMITTED: &str = "admitted";
/// The value of a document that several hold at once. No holder has it.
pub const SHARED_VALUE: &str = "mongo-lease/shared";

/// Fields that only documents of another format have, as paths of a filter. No client reads such a document: a
/// collection with one of them is refused.
pub const OF_ANOTHER_FORMAT: [&str; 3] =
    ["grant.allowanceMs", "queue.allowanceMs", "holders.allowanceMs"];

/// Fields of [`GRANT`]. An entry and a holder have most of them too.
pub mod grant {
    /// The granted value, or the one that a promotion grants.
    pub const VALUE: &str = "value";
    /// The id of the grant, or of the one that a promotion makes: the call and the number of its attempt.
    pub const ID: &str = "id";
    /// The process's own clock when it sent the newest granting or renewing command, or the newest heartbeat, in
    /// microseconds, rounded down.
    pub const SENT_MICROS: &str = "sentMicros";
    /// `label@host:pid`.
    pub const OWNER: &str = "owner";
    /// The server's clock at the grant.
    pub const ACQUIRED_AT: &str = "acquiredAt";
    /// The ttl in milliseconds.
    pub const TTL_MS: &str = "ttlMs";
    /// The maximum clock skew, which the server adds to the ttl, in milliseconds.
    pub const MAX_CLOCK_SKEW_MS: &str = "maxClockSkewMs";
    /// The metadata of the holder or waiter.
    pub const METADATA: &str = "metadata";
    /// A count of our writes, so that no write is a no-op.
    pub const WRITES: &str = "writes";
    /// The timestamp of the grant. On standalone servers only.
    pub const STANDALONE_TOKEN: &str = "standaloneToken";
}

/// Fields of an entry in the [`QUEUE`].
pub mod entry {
    pub use super::grant::{ID, MAX_CLOCK_SKEW_MS, METADATA, OWNER, SENT_MICROS, TTL_MS, VALUE};

    /// The server's clock when the heartbeat arrived.
    pub const HEARTBEAT_AT: &str = "heartbeatAt";
    /// When the entry expires, or the grant of a holder.
    pub const EXPIRES_AT: &str = "expiresAt";
    /// The permits that the waiter asks for, or that the holder has. It is 1 for an exclusive lease.
    pub const PERMITS: &str = "permits";
    /// The most permits that may be in use while it holds. It is 1 for an exclusive lease.
    pub const LIMIT: &str = "limit";
}

/// Fields of a holder in [`HOLDERS`].
pub mod holder {
    pub use super::entry::{EXPIRES_AT, LIMIT, PERMITS};
    pub use super::grant::{
        ACQUIRED_AT, ID, MAX_CLOCK_SKEW_MS, METADATA, OWNER, SENT_MICROS, TTL_MS, VALUE, WRITES,
    };
}
