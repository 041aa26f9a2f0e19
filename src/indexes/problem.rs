//! What is wrong with the indexes of a collection. Pure.

use std::fmt;

use mongodb::bson::{Bson, Document};

use crate::commands::indexes::FoundIndex;
use crate::schema::{IndexSpec, SPECS};

/// Something that is wrong with the indexes of a collection. Its text says what.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexProblem {
    /// The index that the collection must have.
    pub spec: IndexSpec,
    /// The name of the index that it is about; of a missing index the name under which it is created.
    pub index: String,
    /// What is wrong.
    pub kind: IndexProblemKind,
}

/// What is wrong with an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProblemKind {
    /// It does not exist.
    Missing,
    /// It is still being built, and does nothing yet.
    Building,
    /// It is not unique. The server can change that.
    NotUnique,
    /// It has another `expireAfterSeconds`, or none. The server can change that.
    #[non_exhaustive]
    Expiry {
        /// Its `expireAfterSeconds`, of whatever type it is; `None` when it is no TTL index.
        found: Option<String>,
    },
    /// It has the key, and can never do what the specified index does.
    #[non_exhaustive]
    LookAlike {
        /// Why, as the end of a sentence about it.
        reason: String,
    },
    /// It has the same key as the unique index, so that the server cannot tell which of them a hint means.
    #[non_exhaustive]
    SecondIndex {
        /// The name of the other one.
        first: String,
    },
    /// It has another key, and the name under which the missing index would be created.
    NameTaken,
}

impl IndexProblem {
    /// Whether an existing index stands in the way, which the server cannot change into the specified one.
    pub(super) const fn is_in_the_way(&self) -> bool {
        match self.kind {
            IndexProblemKind::Missing
            | IndexProblemKind::Building
            | IndexProblemKind::NotUnique
            | IndexProblemKind::Expiry { .. } => false,
            IndexProblemKind::LookAlike { .. }
            | IndexProblemKind::SecondIndex { .. }
            | IndexProblemKind::NameTaken => true,
        }
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

/// All of them in words, if there is any: first what stands in the way.
pub(super) fn text(problems: &[IndexProblem]) -> Option<String> {
    let (first, then): (Vec<_>, Vec<_>) = problems.iter().partition(|it| it.is_in_the_way());
    let texts: Vec<String> = first.into_iter().chain(then).map(IndexProblem::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// What is missing, and what is other than it has to be.
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
        // Nothing is made beside a look-alike: that would be the second index of this key.
        None if same_key().next().is_some() => {}
        None if indexes.iter().any(|index| index.name == spec.name) => {
            found.push(problem(spec.name, IndexProblemKind::NameTaken));
        }
        None => found.push(problem(spec.name, IndexProblemKind::Missing)),
    }
    found
}

/// What this index, which could be the specified one, lacks for that.
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

/// Why this index, which has the key, can never be the specified one.
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

/// The number may be of any type. A NaN is none: servers take it for zero, or for 68 years.
fn expires_at_once(index: &FoundIndex) -> bool {
    match index.expire_after_seconds {
        Some(Bson::Int32(0) | Bson::Int64(0)) => true,
        Some(Bson::Double(seconds)) => seconds == 0.0,
        Some(_) | None => false,
    }
}

/// Whether this is the key that a hint `{field: 1}` finds.
fn has_key(key: &Document, field: &str) -> bool {
    let is_one = match key.get(field) {
        Some(Bson::Int32(1) | Bson::Int64(1)) => true,
        Some(Bson::Double(direction)) => *direction == 1.0,
        Some(_) | None => false,
    };
    is_one && key.len() == 1
}
