//! Steps: each creates or changes one index.

use std::fmt;

use mongo_lease::indexes::IndexProblem;
use mongodb::bson::Document;

use super::commands::{Change, change_index};

/// One change to a collection's indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The problem that the step solves.
    pub(super) problem: IndexProblem,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Create the index. Another process may be creating it already.
    Create { is_building: bool },
    /// Change its `expireAfterSeconds`; `from` is the present one, if any.
    ChangeExpiry { from: Option<String> },
    /// Make it unique.
    MakeUnique,
}

/// The kind of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// Creates an index, and the collection if it does not exist.
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
    /// The kind of the step.
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
        &self.problem.index
    }

    /// Whether it changes an existing index, and does not create one.
    #[must_use]
    pub const fn changes_existing(&self) -> bool {
        match self.action {
            Action::Create { .. } => false,
            Action::ChangeExpiry { .. } | Action::MakeUnique => true,
        }
    }

    /// The commands of the step, as documents for `runCommand`.
    #[must_use]
    pub fn commands(&self, collection: &str) -> Vec<Document> {
        match self.action {
            Action::Create { .. } => vec![self.create(collection)],
            Action::ChangeExpiry { .. } => vec![self.change(collection, self.expiry())],
            Action::MakeUnique => vec![
                self.change(collection, Change::PrepareUnique(true)),
                self.change(collection, Change::Unique),
            ],
        }
    }

    pub(super) fn create(&self, collection: &str) -> Document {
        self.problem.spec.create_command(collection, self.index())
    }

    pub(super) fn change(&self, collection: &str, change: Change) -> Document {
        change_index(collection, self.index(), change)
    }

    pub(super) fn expiry(&self) -> Change {
        Change::Expiry(self.problem.spec.expire_after_seconds.unwrap_or(0))
    }

    /// Whether the index is unique after the step.
    pub(super) fn makes_unique(&self) -> bool {
        self.problem.spec.unique
    }

    /// Why leases are not safe, or not removed, without this step.
    pub(super) fn problem(&self) -> String {
        self.problem.to_string()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, spec) = (self.index(), self.problem.spec);
        let (key, seconds) = (spec.key, spec.expire_after_seconds.unwrap_or(0));
        let kind = if spec.unique { "unique" } else { "TTL" };
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
