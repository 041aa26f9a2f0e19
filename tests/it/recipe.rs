//! The usual hand-written lock of the articles, as another program at the same collection: with a client of its own,
//! the clock of that client, and no knowledge of ours. Also programs with defects.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document, doc, oid::ObjectId};
use mongo_lease::mongodb::error::{Error, ErrorKind};
use mongo_lease::mongodb::options::ReturnDocument;
use mongo_lease::mongodb::{Collection, Database};

/// Another program.
#[derive(Clone)]
pub(crate) struct Recipe {
    locks: Collection<Document>,
    flavour: Flavour,
}

/// How well it follows the recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// To the letter.
    Correct,
    /// It takes a lock without checking whether it has expired.
    IgnoresExpiry,
    /// It removes a lock by its name alone.
    ReleasesByNameAlone,
}

impl Recipe {
    pub(crate) fn new(database: &Database, flavour: Flavour) -> Recipe {
        Recipe { locks: database.collection("locks"), flavour }
    }

    /// The value under which it has the lock; `None` when somebody else has it.
    pub(crate) async fn lock(&self, name: &str, ttl: Duration) -> Option<String> {
        let value = ObjectId::new().to_hex();
        let now = DateTime::now();
        let ttl = i64::try_from(ttl.as_millis()).unwrap();
        let until = DateTime::from_millis(now.timestamp_millis() + ttl);
        let mut filter = doc! { "name": name };
        if self.flavour != Flavour::IgnoresExpiry {
            let missing = doc! { "expiresAt": null };
            filter.insert("$or", vec![doc! { "expiresAt": { "$lte": now } }, missing]);
        }
        let update = doc! { "$set": { "value": &value, "expiresAt": until } };
        let asked = self.locks.find_one_and_update(filter, update).upsert(true);
        match asked.return_document(ReturnDocument::After).await {
            Ok(document) => document.map(|_| value),
            // Held, so the upsert has tried to insert a second document.
            Err(error) if is_duplicate_key(&error) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether there was something to release.
    pub(crate) async fn unlock(&self, name: &str, value: &str) -> bool {
        let mut filter = doc! { "name": name };
        if self.flavour != Flavour::ReleasesByNameAlone {
            filter.insert("value", value);
        }
        self.locks.delete_one(filter).await.unwrap().deleted_count > 0
    }
}

fn is_duplicate_key(error: &Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(command) if command.code == 11_000)
}
