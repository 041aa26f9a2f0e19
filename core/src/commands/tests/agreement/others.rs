//! Writes of other programs, and of the server itself: what they are, what they make of a document in the
//! specification, and their commands.

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::spec::Types;
use mongo_lease_core_tests::Chance;
use mongodb::Collection;

use super::names::Names;
use super::real::{COLLECTION, Real};
use super::steps::{HOUR, Write};
use super::texts::value;
use super::{lists, texts};
use crate::commands::tests::reading;
use crate::texts::{LeaseDocument, Texts};

/// The ttls that another program writes: too short, too long, and one that a lease may have.
const TTLS: [Option<i64>; 6] =
    [None, Some(0), Some(-3 * HOUR), Some(99), Some(10_000 * HOUR), Some(4 * HOUR)];

const EXPIRY: &str = "write an expiry";
const DAMAGED: &str = "write a damaged expiry or list";

impl Write {
    fn of(name: &'static str, field: &'static str, value: Option<Bson>) -> Write {
        Write { name, fields: vec![(field, value)] }
    }

    /// A form chooses among values of the same meaning.
    pub(super) fn choose(chance: &mut Chance, names: &Names, number: u64, now: i64) -> Write {
        let form = usize::try_from(chance.below(60)).expect("a small number");
        let at = |hours: i64| Bson::from(DateTime::from_millis(now + hours * HOUR));
        match number {
            3..=4 => {
                let (name, value) = match chance.below(5) {
                    0 => (EXPIRY, Some(at(-10))),
                    1 => (EXPIRY, Some(at(20))),
                    2 => (EXPIRY, (form % 2 > 0).then_some(Bson::Null)),
                    _ => (DAMAGED, Some(of_form(form, &foreign()))),
                };
                Write::of(name, "expiresAt", value)
            }
            5 => {
                let to = match chance.below(4) {
                    2 => texts::foreign().into(),
                    3 => Bson::Int32(7),
                    own => value(own).into(),
                };
                Write::of("write a value", "value", Some(to))
            }
            6..=9 => Write::of("write a queue", "queue", Some(lists::queue(chance, names, now))),
            // As if hours had passed since.
            10 => Write::of("write the time of the grant", "grant.acquiredAt", Some(at(-5))),
            11..=12 => {
                let ttl = chance.one_of(&TTLS).map(Bson::Int64);
                Write::of("write a ttl", "grant.ttlMs", ttl)
            }
            13 => {
                let no_list = of_form(form, &no_lists());
                let (name, field, value) = match chance.below(4) {
                    0 => ("write a damaged grant", "grant", "grant".into()),
                    1..=2 => (DAMAGED, "queue", no_list),
                    _ => (DAMAGED, "holders", no_list),
                };
                Write::of(name, field, Some(value))
            }
            _ => Write::of_holders(chance, names, now),
        }
    }

    /// Shared use, with holders that have expired, do not fit together, or are corrupt; often with waiters.
    fn of_holders(chance: &mut Chance, names: &Names, now: i64) -> Write {
        let at = |hours: i64| Bson::from(DateTime::from_millis(now + hours * HOUR));
        let (list, latest) = lists::holders(chance, now);
        let is_waited_for = chance.below(3) > 0;
        let queue = is_waited_for.then(|| lists::queue(chance, names, now));
        let (name, expiry) = match chance.below(9) {
            0..=2 => ("write holders", latest.into()),
            3..=4 => ("write holders", at(8)),
            5..=6 => ("write holders", at(-2)),
            7 => ("write holders", Bson::Null),
            _ => ("write a damaged expiry of holders", "2999".into()),
        };
        let value = Texts::shared().into();
        let set = [("value", value), ("expiresAt", expiry), ("holders", list)];
        let set = set.into_iter().chain(queue.map(|queue| ("queue", queue)));
        Write { name, fields: set.map(|(field, value)| (field, Some(value))).collect() }
    }

    /// The document after it, by the function that reads real ones.
    pub(super) fn written_to(self, mut document: LeaseDocument) -> LeaseDocument {
        for (field, value) in self.fields {
            reading::set(&mut document, field, value.as_ref());
        }
        document
    }
}

impl Real {
    pub(super) fn collection(&self) -> Collection<Document> {
        self.database.collection(COLLECTION)
    }

    /// Acquires as other programs do, with the usual recipe.
    pub(super) async fn foreign_acquire(&self, name: &str) -> bool {
        let now = DateTime::now();
        let until = DateTime::from_millis(now.timestamp_millis() + 4 * HOUR);
        let command = doc! {
            "findAndModify": COLLECTION,
            "query": {
                "name": name,
                "$or": [{ "expiresAt": { "$lte": now } }, { "expiresAt": null }],
            },
            "update": { "$set": { "value": texts::foreign(), "expiresAt": until } },
            "upsert": true,
            "new": true,
        };
        // If it is held, the upsert would create a second document, and the index refuses it.
        self.database.run_command(command).await.is_ok()
    }

    /// Deletes the document as the TTL monitor does, which selects it by a range of dates.
    pub(super) async fn ttl_delete(&self, name: &str) -> bool {
        let expired = doc! { "$gte": DateTime::MIN, "$lte": DateTime::now() };
        self.delete(doc! { "name": name, "expiresAt": expired }).await
    }

    pub(super) async fn delete(&self, filter: Document) -> bool {
        self.collection().delete_one(filter).await.unwrap().deleted_count > 0
    }

    /// Writes to the document, if there is one with these fields.
    pub(super) async fn write(&self, name: &str, write: &Write) {
        let mut filter = doc! { "name": name };
        let mut change = Document::new();
        for (field, value) in &write.fields {
            if field.starts_with("grant.") {
                filter.insert("grant", doc! { "$type": "object" });
            }
            let operator = if value.is_some() { "$set" } else { "$unset" };
            let fields = change.entry(operator.to_owned()).or_insert_with(|| doc! {}.into());
            let fields = fields.as_document_mut().expect("a document");
            fields.insert(*field, value.clone().unwrap_or(Bson::Int32(1)));
        }
        self.collection().update_one(filter, change).await.unwrap();
    }
}

fn of_form(form: usize, values: &[Bson]) -> Bson {
    values[form % values.len()].clone()
}

/// Expiries of a foreign type. (Not an array of dates, which the TTL monitor would delete.)
fn foreign() -> [Bson; 6] {
    [
        "2999".into(),
        1_i64.into(),
        true.into(),
        vec![Bson::Int32(9)].into(),
        doc! { "at": DateTime::from_millis(0) }.into(),
        Timestamp { time: 1, increment: 1 }.into(),
    ]
}

/// Queues or holders that are not an array. Paths into them lead to values all the same.
fn no_lists() -> [Bson; 5] {
    let [first, second, third] = [0, 1, 2].map(|number| {
        let id = format!("call1.{}", 3 + number);
        doc! { "value": value(number), "id": id }.into()
    });
    ["list".into(), 7.into(), first, second, third]
}
