//! Writes of other programs, and of the server itself, to a real document.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::spec::{Expiry, Types};
use mongodb::Collection;

use super::real::{COLLECTION, Real};
use super::small::{Small, Value};
use super::steps::{GRANTED_BEFORE, HOUR, Write};
use super::texts::text;
use super::{holders, queue};

impl Real {
    fn collection(&self) -> Collection<Document> {
        self.database.collection(COLLECTION)
    }

    /// Acquires as other programs do, with the usual recipe.
    pub(super) async fn foreign_acquire(&self, name: &str, value: Value) -> bool {
        let now = DateTime::now();
        let until = DateTime::from_millis(now.timestamp_millis() + 4 * HOUR);
        let command = doc! {
            "findAndModify": COLLECTION,
            "query": {
                "name": name,
                "$or": [{ "expiresAt": { "$lte": now } }, { "expiresAt": null }],
            },
            "update": { "$set": { "value": text(value), "expiresAt": until } },
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

    /// Writes to the document, if there is one.
    pub(super) async fn write(&self, name: &str, write: &Write) {
        let mut filter = doc! { "name": name };
        let change = match write {
            Write::Expiry { to: Expiry::Absent, form } if form % 2 == 0 => {
                doc! { "$unset": { "expiresAt": 1 } }
            }
            Write::Expiry { to: Expiry::Absent, .. } => {
                doc! { "$set": { "expiresAt": Bson::Null } }
            }
            Write::Expiry { to: Expiry::Damaged, form } => {
                doc! { "$set": { "expiresAt": foreign(*form) } }
            }
            Write::Expiry { to: Expiry::At(hours), .. } => {
                doc! { "$set": { "expiresAt": self.at(*hours) } }
            }
            Write::Value(value) => {
                doc! { "$set": { "value": value.map_or(Bson::Int32(7), |it| text(it).into()) } }
            }
            Write::GrantedAt => {
                filter.insert("grant", doc! { "$type": "object" });
                let at = DateTime::from_millis(self.began - GRANTED_BEFORE);
                doc! { "$set": { "grant.acquiredAt": at } }
            }
            Write::Ttl(ttl) => {
                filter.insert("grant", doc! { "$type": "object" });
                match ttl {
                    Some(ttl) => doc! { "$set": { "grant.ttlMs": *ttl } },
                    None => doc! { "$unset": { "grant.ttlMs": 1 } },
                }
            }
            Write::DamagedGrant => doc! { "$set": { "grant": "grant" } },
            Write::Queue(to) => doc! { "$set": { "queue": queue::written(to) } },
            Write::DamagedQueue { form } => doc! { "$set": { "queue": no_list(*form) } },
            Write::Holders { to, top, queue } => {
                let until = match top {
                    Some(Expiry::At(hours)) => self.at(*hours).into(),
                    Some(Expiry::Damaged) => "2999".into(),
                    Some(Expiry::Absent) => Bson::Null,
                    None => DateTime::from_millis(holders::latest(to, self.began)).into(),
                };
                let (value, list) = (text(Small::shared()), holders::written(to, self.began));
                let mut set = doc! { "value": value, "expiresAt": until, "holders": list };
                set.extend(
                    queue.as_ref().map(|to| ("queue".to_owned(), queue::written(to).into())),
                );
                doc! { "$set": set }
            }
            Write::DamagedHolders { form } => doc! { "$set": { "holders": no_list(*form) } },
        };
        self.collection().update_one(filter, change).await.unwrap();
    }

    /// A date so many hours after the start of the test.
    fn at(&self, hours: i64) -> DateTime {
        DateTime::from_millis(self.began + hours * HOUR)
    }
}

/// An expiry of a foreign type. (Not an array of dates, which the TTL monitor would delete.)
fn foreign(form: usize) -> Bson {
    let values: [Bson; 6] = [
        "2999".into(),
        1_i64.into(),
        true.into(),
        vec![Bson::Int32(9)].into(),
        doc! { "at": DateTime::from_millis(0) }.into(),
        crate::bson::Timestamp { time: 1, increment: 1 }.into(),
    ];
    values[form % values.len()].clone()
}

/// A queue or holders that are not an array. Paths into them lead to values all the same.
fn no_list(form: usize) -> Bson {
    let [first, second, third] = [0, 1, 2].map(|value| {
        let id = format!("call1.{}", 3 + value);
        doc! { "value": text(Value(value)), "id": id }.into()
    });
    let values: [Bson; 5] = ["list".into(), 7.into(), first, second, third];
    values[form % values.len()].clone()
}
