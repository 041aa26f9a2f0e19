//! Compares the indexes of a collection with the specifications. Pure: no database.

use std::fmt;

use mongo_lease_core::commands::FoundIndex;
use mongo_lease_core::schema::{IndexSpec, SPECS};
use mongodb::bson::{Bson, Document};

/// A problem with the indexes of a collection. Its `Display` text describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexProblem {
    /// The index that the collection must have.
    pub spec: IndexSpec,
    /// The name of the affected index. For a missing index, the name under which it is created.
    pub index: String,
    /// The kind of the problem.
    pub kind: IndexProblemKind,
}

/// The kind of an index problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProblemKind {
    /// The index does not exist.
    Missing,
    /// The index is still being built, and has no effect yet.
    Building,
    /// The index is not unique. The server can change that.
    NotUnique,
    /// The index has another `expireAfterSeconds`, or none. The server can change that.
    #[non_exhaustive]
    Expiry {
        /// Its `expireAfterSeconds`, of any type; `None` if it is not a TTL index.
        found: Option<String>,
    },
    /// The index has the right key, but cannot replace the specified one.
    #[non_exhaustive]
    LookAlike {
        /// The reason, as the predicate of a sentence whose subject is the index.
        reason: String,
    },
    /// The index has the same key as the unique index, so a hint is ambiguous.
    #[non_exhaustive]
    SecondIndex {
        /// The name of the other index.
        first: String,
    },
    /// The index has another key, but the name that the missing index needs.
    NameTaken,
}

impl IndexProblem {
    /// Whether an existing index is in the way. The server cannot change it into the specified one.
    fn is_in_the_way(&self) -> bool {
        use IndexProblemKind::{LookAlike, NameTaken, SecondIndex};
        matches!(self.kind, LookAlike { .. } | SecondIndex { .. } | NameTaken)
    }

    /// Whether the index is missing, or not ready yet. Any other problem is one of an existing index.
    pub(super) fn is_to_be_created(&self) -> bool {
        matches!(self.kind, IndexProblemKind::Missing | IndexProblemKind::Building)
    }
}

impl fmt::Display for IndexProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, key) = (&self.index, self.spec.key);
        let kind = if self.spec.unique { "unique" } else { "TTL" };
        match &self.kind {
            IndexProblemKind::Missing => {
                write!(formatter, "the {kind} index on `{key}` is missing")
            }
            IndexProblemKind::Building => {
                write!(formatter, "the {kind} index `{index}` on `{key}` is still being built")
            }
            IndexProblemKind::NotUnique => {
                write!(formatter, "the index `{index}` on `{key}` is not unique")
            }
            IndexProblemKind::Expiry { found: None } => {
                write!(formatter, "the index `{index}` on `{key}` is not a TTL index")
            }
            IndexProblemKind::Expiry { found: Some(seconds) } => {
                let what = "has an expireAfterSeconds of";
                write!(formatter, "the index `{index}` on `{key}` {what} {seconds}")
            }
            IndexProblemKind::LookAlike { reason } => {
                write!(formatter, "the index `{index}` on `{key}` {reason}")
            }
            IndexProblemKind::SecondIndex { first } => write!(
                formatter,
                "the index `{index}` has the same key as `{first}`, and the server refuses a hint \
                 that matches both"
            ),
            IndexProblemKind::NameTaken => write!(
                formatter,
                "the {kind} index on `{key}` is missing, and another index has its name `{index}`"
            ),
        }
    }
}

/// All problems as one text, those of indexes in the way first; `None` if there are none.
pub(super) fn text<'a>(problems: impl IntoIterator<Item = &'a IndexProblem>) -> Option<String> {
    let (first, then): (Vec<_>, Vec<_>) = problems.into_iter().partition(|it| it.is_in_the_way());
    let texts: Vec<String> = first.into_iter().chain(then).map(IndexProblem::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Lists the missing indexes, and those that differ from their specifications.
pub(super) fn problems(indexes: &[FoundIndex]) -> Vec<IndexProblem> {
    SPECS.iter().flat_map(|spec| compare(spec, indexes)).collect()
}

fn compare(spec: &IndexSpec, indexes: &[FoundIndex]) -> Vec<IndexProblem> {
    let problem = |index: &str, kind| IndexProblem { spec: *spec, index: index.to_owned(), kind };
    let same_key = || indexes.iter().filter(|index| has_key(&index.key, spec.key));
    let sound = || same_key().filter(|index| defect(index, spec).is_none());
    let chosen = sound().find(|index| is_done(index, spec)).or_else(|| sound().next());
    let mut found = Vec::new();
    for index in same_key().filter(|index| chosen != Some(*index)) {
        if let Some(chosen) = chosen
            && spec.unique
        {
            let kind = IndexProblemKind::SecondIndex { first: chosen.name.clone() };
            found.push(problem(&index.name, kind));
        } else if let Some(reason) = defect(index, spec)
            && (chosen.is_none() || index.is_unique)
        {
            found.push(problem(&index.name, IndexProblemKind::LookAlike { reason }));
        }
    }
    match chosen {
        Some(index) => {
            found.extend(shortfall(index, spec).map(|kind| problem(&index.name, kind)));
        }
        // Nothing is created beside a look-alike: it would be the second index with this key.
        None if same_key().next().is_some() => {}
        None if indexes.iter().any(|index| index.name == spec.name) => {
            found.push(problem(spec.name, IndexProblemKind::NameTaken));
        }
        None => found.push(problem(spec.name, IndexProblemKind::Missing)),
    }
    found
}

/// The difference between this index, which could serve as the specified one, and the specification.
fn shortfall(index: &FoundIndex, spec: &IndexSpec) -> Option<IndexProblemKind> {
    if spec.unique && !index.is_unique {
        Some(IndexProblemKind::NotUnique)
    } else if spec.expire_after_seconds.is_some() && !expires_at_once(index) {
        let found = index.expire_after_seconds.as_ref().map(Bson::to_string);
        Some(IndexProblemKind::Expiry { found })
    } else {
        index.is_building.then_some(IndexProblemKind::Building)
    }
}

/// Why this index, although it has the key, can never be the specified one.
fn defect(index: &FoundIndex, spec: &IndexSpec) -> Option<String> {
    let text = if index.is_partial {
        "is partial: it does not hold all documents"
    } else if index.is_sparse {
        "is sparse: it does not hold all documents"
    } else if index.is_hidden {
        "is hidden: no command can use it"
    } else if let Some(locale) = &index.collation {
        return Some(format!("uses the collation `{locale}`, in which `A` may equal `a`"));
    } else if index.is_unique && !spec.unique {
        "is unique: two leases could not expire in the same millisecond"
    } else if index.expire_after_seconds.is_some() && spec.expire_after_seconds.is_none() {
        "is a TTL index"
    } else {
        return None;
    };
    Some(text.to_owned())
}

fn is_done(index: &FoundIndex, spec: &IndexSpec) -> bool {
    index.is_unique == spec.unique
        && (spec.expire_after_seconds.is_none() || expires_at_once(index))
}

/// Whether documents expire at `expiresAt`. The number may have any type. NaN does not count: servers read it as zero
/// or as 68 years.
fn expires_at_once(index: &FoundIndex) -> bool {
    match index.expire_after_seconds {
        Some(Bson::Int32(0) | Bson::Int64(0)) => true,
        Some(Bson::Double(seconds)) => seconds == 0.0,
        Some(_) | None => false,
    }
}

/// Whether a hint `{field: 1}` finds an index with this key.
fn has_key(key: &Document, field: &str) -> bool {
    let is_one = match key.get(field) {
        Some(Bson::Int32(1) | Bson::Int64(1)) => true,
        Some(Bson::Double(direction)) => *direction == 1.0,
        Some(_) | None => false,
    };
    is_one && key.len() == 1
}
