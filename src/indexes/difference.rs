//! The difference between the indexes that are wanted and those that are there. Pure.

use mongodb::bson::{Bson, Document};

use super::obstacle::{Obstacle, ObstacleKind};
use super::step::{Action, Step, kind_of};
use crate::commands::indexes::{FoundCollection, FoundIndex};
use crate::schema::{self, INDEXES, WantedIndex};

/// The wire version of MongoDB 5.1, whose `collMod` makes a plain index a TTL index.
const WIRE_VERSION_TTL_CONVERSION: i32 = 14;
/// The wire version of MongoDB 6.0, whose `collMod` makes an index unique.
const WIRE_VERSION_UNIQUE_CONVERSION: i32 = 17;

/// What there is.
pub(super) struct Found<'a> {
    /// What has the collection's name; `None` when nothing has, or nobody has looked.
    pub(super) collection: Option<&'a FoundCollection>,
    pub(super) indexes: &'a [FoundIndex],
    pub(super) wire_version: i32,
}

/// What is to be done, and what stands in the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
    pub(super) notes: Vec<String>,
}

impl Difference {
    /// In words, if there is any.
    pub(super) fn problem(&self) -> Option<String> {
        let obstacles = self.obstacles.iter().map(|obstacle| obstacle.problem().to_owned());
        let problems: Vec<String> = obstacles.chain(self.steps.iter().map(Step::problem)).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Whether an index is to become unique, which no two documents with the same name survive.
    pub(super) fn makes_unique(&self) -> bool {
        self.steps.iter().any(|step| step.wanted.unique)
    }
}

/// What is missing, and what is other than it has to be.
pub(super) fn difference(collection: &str, found: &Found<'_>) -> Difference {
    let mut difference = Difference::default();
    if let Some(stands_there) = found.collection
        && let Some(obstacle) = not_a_collection(collection, stands_there)
    {
        difference.obstacles.push(obstacle);
        return difference;
    }
    for wanted in INDEXES {
        compare(&wanted, collection, found, &mut difference);
    }
    let expiries = found.indexes.iter().filter_map(other_expiry);
    difference.notes = expiries.chain(found.indexes.iter().filter_map(unique_value)).collect();
    difference
}

fn not_a_collection(collection: &str, found: &FoundCollection) -> Option<Obstacle> {
    let what = match (found.kind.as_str(), found.is_capped) {
        ("collection", false) => return None,
        ("collection", true) => "a capped collection, which lets no TTL index remove documents",
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

fn compare(wanted: &WantedIndex, collection: &str, found: &Found<'_>, to: &mut Difference) {
    let same_key = || found.indexes.iter().filter(|index| has_key(&index.key, wanted.key));
    let sound = || same_key().filter(|index| defect(index, wanted).is_none());
    let chosen = sound().find(|index| is_done(index, wanted)).or_else(|| sound().next());
    let drop_it = |index: &FoundIndex| {
        format!("drop it with `{}`, and run this again", drop_command(collection, &index.name))
    };
    for index in same_key().filter(|index| chosen != Some(*index)) {
        let (name, key) = (&index.name, wanted.key);
        if let Some(chosen) = chosen
            && wanted.unique
        {
            let problem = format!(
                "the index `{name}` has the same key as `{}`, and the server refuses a hint that \
                 may mean either",
                chosen.name
            );
            to.obstacles.push(Obstacle::new(ObstacleKind::SecondIndex, problem, drop_it(index)));
        } else if let Some(defect) = defect(index, wanted)
            && (chosen.is_none() || index.is_unique)
        {
            let problem = format!("the index `{name}` on `{key}` {defect}");
            to.obstacles.push(Obstacle::new(ObstacleKind::LookAlike, problem, drop_it(index)));
        }
    }
    match chosen {
        Some(index) => bring_up(index, wanted, found.wire_version, drop_it(index), to),
        // Nothing is made beside a look-alike: that would be the second index of this key.
        None if same_key().next().is_some() => {}
        None => match found.indexes.iter().find(|index| index.name == wanted.name) {
            Some(index) => {
                let (kind, key) = (kind_of(wanted), wanted.key);
                let name = &index.name;
                let problem = format!(
                    "the {kind} index on `{key}` is missing, and another has its name `{name}`"
                );
                let obstacle = Obstacle::new(ObstacleKind::NameTaken, problem, drop_it(index));
                to.obstacles.push(obstacle);
            }
            None => to.steps.push(step(wanted, wanted.name, Action::Create { is_building: false })),
        },
    }
}

/// What makes this index the wanted one, if anything does.
fn bring_up(
    index: &FoundIndex,
    wanted: &WantedIndex,
    wire_version: i32,
    drop_it: String,
    to: &mut Difference,
) {
    let unique_is_wrong = wanted.unique && !index.is_unique;
    let expiry_is_wrong = wanted.expire_after_seconds.is_some() && !expires_at_once(index);
    let action = if unique_is_wrong {
        Action::MakeUnique
    } else if expiry_is_wrong {
        let from = index.expire_after_seconds.as_ref().map(Bson::to_string);
        Action::ChangeExpiry { from }
    } else if index.is_building {
        Action::Create { is_building: true }
    } else {
        return;
    };
    let step = step(wanted, &index.name, action);
    let (version, release) = match &step.action {
        Action::MakeUnique => (WIRE_VERSION_UNIQUE_CONVERSION, "6.0"),
        Action::ChangeExpiry { from: None } => (WIRE_VERSION_TTL_CONVERSION, "5.1"),
        Action::ChangeExpiry { from: Some(_) } | Action::Create { .. } => (0, ""),
    };
    if wire_version >= version {
        to.steps.push(step);
        return;
    }
    let problem =
        format!("{}, and a server before MongoDB {release} cannot change that", step.problem());
    to.obstacles.push(Obstacle::new(ObstacleKind::CannotConvert, problem, drop_it));
}

fn step(wanted: &WantedIndex, index: &str, action: Action) -> Step {
    Step { index: index.to_owned(), wanted: *wanted, action }
}

/// Why this index, which has the key, can never be the wanted one.
fn defect(index: &FoundIndex, wanted: &WantedIndex) -> Option<String> {
    let text = if index.is_partial {
        "is partial: it does not hold all documents"
    } else if index.is_sparse {
        "is sparse: it does not hold all documents"
    } else if index.is_hidden {
        "is hidden: no command can use it"
    } else if let Some(locale) = &index.collation {
        return Some(format!("compares by the collation `{locale}`, where `A` may be `a`"));
    } else if index.is_unique && !wanted.unique {
        "is unique: no two leases could end in the same millisecond"
    } else if index.expire_after_seconds.is_some() && wanted.expire_after_seconds.is_none() {
        "is a TTL index"
    } else {
        return None;
    };
    Some(text.to_owned())
}

fn is_done(index: &FoundIndex, wanted: &WantedIndex) -> bool {
    index.is_unique == wanted.unique
        && (wanted.expire_after_seconds.is_none() || expires_at_once(index))
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

/// A TTL index on another field, by which the server may remove leases that are held.
fn other_expiry(index: &FoundIndex) -> Option<String> {
    index.expire_after_seconds.as_ref()?;
    let field = index.key.keys().find(|field| *field != schema::EXPIRES_AT)?;
    let name = &index.name;
    Some(format!(
        "by the TTL index `{name}` on `{field}` the server may remove leases that are held"
    ))
}

/// A unique index on `value`. Nothing breaks by it: values of ours are random, also those of tombstones. It is no
/// obstacle therefore, and a manager is built beside it.
fn unique_value(index: &FoundIndex) -> Option<String> {
    let is_on_value = index.key.len() == 1 && index.key.contains_key(schema::VALUE);
    (is_on_value && index.is_unique).then(|| {
        let name = &index.name;
        format!(
            "the index `{name}` on `value` is unique: a value of the caller's own can hold one \
             lease at a time, and a second acquire with it fails"
        )
    })
}

fn drop_command(collection: &str, index: &str) -> String {
    format!("db.getCollection({collection:?}).dropIndex({index:?})")
}
