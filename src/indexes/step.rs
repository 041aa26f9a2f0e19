//! A step: one index made, or changed.

use std::fmt;

use mongodb::bson::Document;

use crate::commands::Command;
use crate::commands::indexes::{Change, ChangeIndex, CreateIndex};
use crate::rules::time::Instant;
use crate::schema::WantedIndex;

/// One thing to do to a collection's indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub(super) index: String,
    pub(super) wanted: WantedIndex,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Make it. It may be under way by somebody else's command already.
    Create { is_building: bool },
    /// Change its `expireAfterSeconds`, which is this, or is not there.
    ChangeExpiry { from: Option<String> },
    /// Make it unique.
    MakeUnique,
}

/// What a [`Step`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// Makes an index; and the collection, where there is none.
    CreateIndex,
    /// Sets `expireAfterSeconds` of an index.
    ChangeExpiry,
    /// Makes an index unique.
    MakeUnique,
}

impl StepKind {
    /// A word for programs: `create_index`, `change_expiry` or `make_unique`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            StepKind::CreateIndex => "create_index",
            StepKind::ChangeExpiry => "change_expiry",
            StepKind::MakeUnique => "make_unique",
        }
    }
}

impl Step {
    /// What it does.
    #[must_use]
    pub const fn kind(&self) -> StepKind {
        match self.action {
            Action::Create { .. } => StepKind::CreateIndex,
            Action::ChangeExpiry { .. } => StepKind::ChangeExpiry,
            Action::MakeUnique => StepKind::MakeUnique,
        }
    }

    /// The name of the index.
    #[must_use]
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Whether it changes an index that is there, rather than making one that is missing.
    #[must_use]
    pub const fn changes_existing(&self) -> bool {
        match self.action {
            Action::Create { .. } => false,
            Action::ChangeExpiry { .. } | Action::MakeUnique => true,
        }
    }

    /// The commands that do it, as documents for `runCommand`.
    #[must_use]
    pub fn commands(&self, collection: &str) -> Vec<Document> {
        let build = |change| self.change(collection, change).build(collection, Instant::START);
        match self.action {
            Action::Create { .. } => {
                vec![self.create(collection).build(collection, Instant::START)]
            }
            Action::ChangeExpiry { .. } => vec![build(self.expiry())],
            Action::MakeUnique => {
                vec![build(Change::PrepareUnique(true)), build(Change::Unique)]
            }
        }
    }

    pub(super) fn create(&self, collection: &str) -> CreateIndex {
        CreateIndex {
            collection: collection.to_owned(),
            name: self.index.clone(),
            wanted: self.wanted,
        }
    }

    pub(super) fn change(&self, collection: &str, change: Change) -> ChangeIndex {
        ChangeIndex { collection: collection.to_owned(), name: self.index.clone(), change }
    }

    pub(super) fn expiry(&self) -> Change {
        Change::Expiry(self.wanted.expire_after_seconds.unwrap_or(0))
    }

    /// Why leases are not safe, or not removed, without it.
    pub(super) fn problem(&self) -> String {
        let (index, kind, key) = (&self.index, kind_of(&self.wanted), self.wanted.key);
        match &self.action {
            Action::Create { is_building: false } => {
                format!("the {kind} index on `{key}` is missing")
            }
            Action::Create { is_building: true } => {
                format!("the {kind} index `{index}` on `{key}` is still being built")
            }
            Action::ChangeExpiry { from: None } => {
                format!("the index `{index}` on `{key}` is no TTL index")
            }
            Action::ChangeExpiry { from: Some(seconds) } => {
                format!("the index `{index}` on `{key}` has an expireAfterSeconds of {seconds}")
            }
            Action::MakeUnique => format!("the index `{index}` on `{key}` is not unique"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, kind, key) = (&self.index, kind_of(&self.wanted), self.wanted.key);
        let seconds = self.wanted.expire_after_seconds.unwrap_or(0);
        match &self.action {
            Action::Create { is_building: false } => {
                write!(formatter, "create the {kind} index `{index}` on `{key}`")
            }
            Action::Create { is_building: true } => {
                write!(formatter, "wait for the {kind} index `{index}` on `{key}` to be built")
            }
            Action::ChangeExpiry { from: None } => {
                let what = "make the index";
                write!(formatter, "{what} `{index}` on `{key}` a TTL index of {seconds} seconds")
            }
            Action::ChangeExpiry { from: Some(from) } => write!(
                formatter,
                "change expireAfterSeconds of the index `{index}` from {from} to {seconds}"
            ),
            Action::MakeUnique => write!(formatter, "make the index `{index}` on `{key}` unique"),
        }
    }
}

pub(super) fn kind_of(wanted: &WantedIndex) -> &'static str {
    if wanted.unique { "unique" } else { "TTL" }
}
