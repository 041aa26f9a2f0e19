//! Obstacles: problems that need a person's decision.

use std::fmt;

use mongodb::bson::Bson;

use super::holder::Holder;

/// A problem that stops the plan until a person has decided about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    kind: ObstacleKind,
    problem: String,
    advice: String,
    duplicates: Vec<DuplicateName>,
}

/// The kind of an obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObstacleKind {
    /// A view, a time series or a capped collection has the name.
    NotACollection,
    /// An index has the key, but cannot replace the specified one.
    LookAlike,
    /// A second index has the key of the unique one, so a hint is ambiguous.
    SecondIndex,
    /// Another index has the name that the missing index needs.
    NameTaken,
    /// The server does not change the index in place: it is too old, or the client uses the strict Stable API.
    CannotConvert,
    /// More than one document has the same name.
    Duplicates,
    /// Documents have an unsupported format.
    OtherFormat,
}

impl ObstacleKind {
    /// A word for programs, such as `look_alike`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ObstacleKind::NotACollection => "not_a_collection",
            ObstacleKind::LookAlike => "look_alike",
            ObstacleKind::SecondIndex => "second_index",
            ObstacleKind::NameTaken => "name_taken",
            ObstacleKind::CannotConvert => "cannot_convert",
            ObstacleKind::Duplicates => "duplicates",
            ObstacleKind::OtherFormat => "other_format",
        }
    }
}

/// A name that more than one document has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DuplicateName {
    /// The name, as in the documents. `Bson::Null` also if they have none.
    pub name: Bson,
    /// The number of documents with this name.
    pub documents: u64,
    /// The holders in the first 20 of them.
    pub holders: Vec<Holder>,
}

impl DuplicateName {
    pub(super) fn new(name: &Bson, documents: i64, holders: Vec<Holder>) -> DuplicateName {
        let name = name.clone();
        DuplicateName { name, documents: u64::try_from(documents).unwrap_or(0), holders }
    }
}

impl Obstacle {
    pub(super) fn new(kind: ObstacleKind, problem: String, advice: String) -> Obstacle {
        Obstacle { kind, problem, advice, duplicates: Vec::new() }
    }

    /// The obstacle for duplicate names, if there are any.
    pub(super) fn duplicates(total: i64, names: Vec<DuplicateName>) -> Option<Obstacle> {
        if names.is_empty() {
            return None;
        }
        let who = if total == 1 { "1 name has".to_owned() } else { format!("{total} names have") };
        Some(Obstacle {
            kind: ObstacleKind::Duplicates,
            problem: format!("{who} more than one document, so `name` cannot be unique"),
            advice: "stop the holders, and delete all but one document of each name".to_owned(),
            duplicates: names,
        })
    }

    /// The obstacle for documents of another format, if there are any: their number, and the first of their names.
    pub(super) fn other_format(total: i64, names: &[Bson]) -> Option<Obstacle> {
        let documents = match total {
            0 => return None,
            1 => "1 document has".to_owned(),
            total => format!("{total} documents have"),
        };
        let more = usize::try_from(total).unwrap_or(0).saturating_sub(names.len());
        let more = (more > 0).then(|| format!("{more} more"));
        let names: Vec<String> = names.iter().map(shown).chain(more).collect();
        let problem = format!("{documents} an unsupported format: {}", names.join(", "));
        let advice = "stop the programs that write it, and delete these documents: they are leases \
                      only, and nothing else is lost";
        Some(Obstacle::new(ObstacleKind::OtherFormat, problem, advice.to_owned()))
    }

    /// The kind of the obstacle.
    #[must_use]
    pub const fn kind(&self) -> ObstacleKind {
        self.kind
    }

    /// A description of the problem.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// How to resolve it.
    #[must_use]
    pub fn advice(&self) -> &str {
        &self.advice
    }

    /// The first 20 names that more than one document has. Names with the most documents come first.
    #[must_use]
    pub fn duplicate_names(&self) -> &[DuplicateName] {
        &self.duplicates
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.problem, self.advice)?;
        for duplicate in &self.duplicates {
            let name = shown(&duplicate.name);
            write!(formatter, "\n    {name}: {} documents", duplicate.documents)?;
            for holder in &duplicate.holders {
                write!(formatter, "\n      {holder}")?;
                match &holder.value {
                    Some(value) => write!(formatter, ", value {value:?}")?,
                    None => formatter.write_str(", no value")?,
                }
            }
        }
        Ok(())
    }
}

/// A name for people. Strings are quoted, so that none looks like another type.
fn shown(name: &Bson) -> String {
    match (name.as_str(), name) {
        (Some(text), _) => format!("{text:?}"),
        (None, Bson::Null) => "no name".to_owned(),
        (None, other) => other.to_string(),
    }
}
