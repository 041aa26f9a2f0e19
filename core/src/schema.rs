//! The collection, and its required indexes. Data only.

use crate::format;

/// The default collection.
pub const COLLECTION_DEFAULT: &str = "locks";

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
    IndexSpec { name: "name_1", key: format::NAME, unique: true, expire_after_seconds: None };

/// Removes the documents that crashed holders leave.
const TTL_EXPIRES_AT: IndexSpec = IndexSpec {
    name: "expiresAt_1",
    key: format::EXPIRES_AT,
    unique: false,
    expire_after_seconds: Some(0),
};

/// The two required indexes, in the order in which they are created.
///
/// Without the unique index on `name`, two processes can be granted the same lease. The TTL index on `expiresAt`
/// removes the documents that crashed holders leave.
pub const SPECS: [IndexSpec; 2] = [UNIQUE_NAME, TTL_EXPIRES_AT];
