//! Compares the specified indexes with the existing ones, and decides what to do. Pure.

use mongo_lease::indexes::{IndexProblem, IndexProblemKind, problems};
use mongodb::bson::{Bson, Document};

use super::commands::FoundCollection;
use super::obstacle::{Obstacle, ObstacleKind};
use super::step::{Action, Step};

/// The wire version of MongoDB 5.1, whose `collMod` makes a plain index a TTL index.
const WIRE_VERSION_TTL_CONVERSION: i32 = 14;
/// The wire version of MongoDB 6.0, whose `collMod` makes an index unique.
const WIRE_VERSION_UNIQUE_CONVERSION: i32 = 17;

/// The current state of a collection.
pub(super) struct Found<'a> {
    /// The object that has the collection's name; `None` if there is none, or if nobody has asked.
    pub(super) collection: Option<&'a FoundCollection>,
    /// The entries of `listIndexes`.
    pub(super) indexes: &'a [Document],
    pub(super) wire_version: i32,
}

/// The steps to take, and the obstacles.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
    pub(super) notes: Vec<String>,
}

impl Difference {
    /// All problems as one text; `None` if there are none.
    pub(super) fn problem(&self) -> Option<String> {
        let obstacles = self.obstacles.iter().map(|obstacle| obstacle.problem().to_owned());
        let problems: Vec<String> = obstacles.chain(self.steps.iter().map(Step::problem)).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Whether an index becomes unique. This fails if two documents have the same name.
    pub(super) fn makes_unique(&self) -> bool {
        self.steps.iter().any(Step::makes_unique)
    }
}

impl Difference {
    /// Whether an existing index is to be made unique.
    pub(super) fn converts_to_unique(&self) -> bool {
        self.steps.iter().any(|step| step.action == Action::MakeUnique)
    }

    /// Turns each such step into an obstacle: the server refuses it to clients of the strict Stable API.
    pub(super) fn refuse_conversion(&mut self, collection: &str) {
        let steps = std::mem::take(&mut self.steps).into_iter();
        let (refused, kept): (Vec<_>, Vec<_>) =
            steps.partition(|step| step.action == Action::MakeUnique);
        self.steps = kept;
        for step in refused {
            let problem = &step.problem;
            let text = format!(
                "{problem}, and this server changes that for no client of the strict Stable API"
            );
            let drop = drop_command(collection, problem);
            let advice = format!(
                "run this once without `apiStrict`, or drop it with `{drop}`, and run this again"
            );
            self.obstacles.push(Obstacle::new(ObstacleKind::CannotConvert, text, advice));
        }
    }
}

/// Finds the missing indexes, and those that differ from their specifications.
pub(super) fn difference(collection: &str, found: &Found<'_>) -> Difference {
    let mut difference = Difference::default();
    if let Some(stands_there) = found.collection
        && let Some(obstacle) = not_a_collection(collection, stands_there)
    {
        difference.obstacles.push(obstacle);
        return difference;
    }
    for problem in problems(found.indexes) {
        let advice =
            || format!("drop it with `{}`, and run this again", drop_command(collection, &problem));
        match decide(&problem, found.wire_version) {
            Ok(action) => difference.steps.push(Step { problem, action }),
            Err((kind, text)) => difference.obstacles.push(Obstacle::new(kind, text, advice())),
        }
    }
    let specs = || found.indexes.iter().map(|entry| entry.get_document("spec").unwrap_or(entry));
    difference.notes = specs().filter_map(other_expiry).collect();
    difference.notes.extend(specs().filter_map(unique_value));
    difference
}

fn not_a_collection(collection: &str, found: &FoundCollection) -> Option<Obstacle> {
    let what = match (found.kind.as_str(), found.is_capped) {
        ("collection", false) => return None,
        ("collection", true) => "a capped collection, where TTL indexes remove nothing",
        ("view", _) => "a view",
        ("timeseries", _) => "a time-series collection",
        (other, _) => other,
    };
    Some(Obstacle::new(
        ObstacleKind::NotACollection,
        format!("`{collection}` is {what}"),
        "keep the leases in another collection".to_owned(),
    ))
}

/// Decides on the step that solves this problem, or on its obstacle.
fn decide(problem: &IndexProblem, wire_version: i32) -> Result<Action, (ObstacleKind, String)> {
    let (action, version, release) = match &problem.kind {
        IndexProblemKind::Missing => return Ok(Action::Create { is_building: false }),
        IndexProblemKind::Building => return Ok(Action::Create { is_building: true }),
        IndexProblemKind::NotUnique => (Action::MakeUnique, WIRE_VERSION_UNIQUE_CONVERSION, "6.0"),
        IndexProblemKind::Expiry { found: Some(seconds), .. } => {
            return Ok(Action::ChangeExpiry { from: Some(seconds.clone()) });
        }
        IndexProblemKind::Expiry { .. } => {
            (Action::ChangeExpiry { from: None }, WIRE_VERSION_TTL_CONVERSION, "5.1")
        }
        IndexProblemKind::SecondIndex { .. } => {
            return Err((ObstacleKind::SecondIndex, problem.to_string()));
        }
        IndexProblemKind::NameTaken => return Err((ObstacleKind::NameTaken, problem.to_string())),
        IndexProblemKind::LookAlike { .. } => {
            return Err((ObstacleKind::LookAlike, problem.to_string()));
        }
        // The library may add kinds of problems: a person decides about new ones.
        _ => return Err((ObstacleKind::LookAlike, problem.to_string())),
    };
    if wire_version >= version {
        return Ok(action);
    }
    let text = format!("{problem}, and a server before MongoDB {release} cannot change that");
    Err((ObstacleKind::CannotConvert, text))
}

/// Notes a TTL index on another field, which may remove held leases.
fn other_expiry(index: &Document) -> Option<String> {
    index.get("expireAfterSeconds")?;
    let key = index.get_document("key").ok()?;
    let field = key.keys().find(|field| *field != "expiresAt")?;
    let name = index.get_str("name").unwrap_or_default();
    Some(format!("the TTL index `{name}` on `{field}` can remove held leases"))
}

/// Notes a unique index on `value`. It breaks nothing, because this crate's values are random, also those of
/// tombstones. So it is not an obstacle, and a manager accepts it.
fn unique_value(index: &Document) -> Option<String> {
    let key = index.get_document("key").ok()?;
    let is_on_value = key.len() == 1 && key.contains_key("value");
    let is_unique = match index.get("unique") {
        // Old indexes have numbers in place of booleans.
        None | Some(Bson::Null | Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) => false,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(_) => true,
    };
    (is_on_value && is_unique).then(|| {
        let name = index.get_str("name").unwrap_or_default();
        format!(
            "the index `{name}` on `value` is unique: a custom value can hold one lease at a time, \
             and a second acquire with it fails"
        )
    })
}

fn drop_command(collection: &str, problem: &IndexProblem) -> String {
    format!("db.getCollection({collection:?}).dropIndex({:?})", problem.index)
}
