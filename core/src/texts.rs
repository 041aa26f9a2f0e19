//! The specification's types as the database has them: texts.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::bson::Document;
use crate::format;
use crate::rules::ids;
use crate::rules::tombstone::PREFIX;
use crate::spec::{self, Types};

/// Texts as identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Texts;

/// A holder's or waiter's label, and its metadata.
#[derive(Clone, Debug)]
pub struct Details {
    /// `label@host:pid`.
    pub owner: String,
    /// The metadata.
    pub metadata: Document,
}

impl Details {
    /// Metadata may hold a NaN, which does not equal itself. Its text does.
    fn as_texts(&self) -> (&str, String) {
        (&self.owner, self.metadata.to_string())
    }
}

impl PartialEq for Details {
    fn eq(&self, other: &Details) -> bool {
        let is_same = || self.metadata == other.metadata;
        self.owner == other.owner && (is_same() || self.as_texts() == other.as_texts())
    }
}

impl Eq for Details {}

impl Hash for Details {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_texts().hash(state);
    }
}

impl Types for Texts {
    type Value = String;
    type CallId = ids::CallId;
    type GrantId = ids::GrantId;
    /// Shared: each document that a store in memory copies has them for every holder and waiter.
    type Details = Arc<Details>;

    fn is_of_call(grant: &ids::GrantId, call: &ids::CallId) -> bool {
        call.has(grant)
    }

    /// Only on a server may another program have an index on the values: here one does for all documents.
    fn nobody() -> String {
        format!("{PREFIX}in memory")
    }

    fn shared() -> String {
        format::SHARED_VALUE.to_owned()
    }
}

/// Which of a value's grants a release ends.
pub type GrantMatch = spec::GrantMatch<Texts>;
/// The document of a lease.
pub type LeaseDocument = spec::Document<Texts>;
/// The field of the last promotion.
pub type Promoted = spec::Promoted<Texts>;
/// One waiter that the last write admitted.
pub type Admission = spec::Admission<Texts>;
