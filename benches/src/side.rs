//! The sides of each comparison: mongo-lease, and the same work done by the driver alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::error::{Error as DriverError, ErrorKind, WriteFailure};
use mongo_lease::mongodb::options::{Acknowledgment, ReturnDocument, WriteConcern};
use mongo_lease::{Acquire, Attempt, Lease, LeaseManager};
use mongo_lease_measure::{Outcome, indexed_collection, journalled_collection};

use crate::databases::Databases;

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// mongo-lease with its default options.
    Ours,
    /// mongo-lease, where a release makes a tombstone.
    Tombstones,
    /// mongo-lease, with a permit of a semaphore in place of an exclusive lease.
    Permit,
    /// The driver's `insert_one` and `delete_one`, without retryable writes.
    Bare,
    /// The usual recipe by the driver, without retryable writes: an upsert whose filter has an `$or`, and a delete by
    /// name and value.
    Recipe,
    /// The bare pair with retryable writes, which are the driver's default.
    BareRetryable,
    /// The recipe with retryable writes, which are the driver's default.
    RecipeRetryable,
}

/// Far more permits than any case has in use.
const LIMIT: u32 = 1_000;

impl Side {
    /// Those that most cases compare.
    pub(crate) const USUAL: [Side; 3] = [Side::Ours, Side::Bare, Side::Recipe];
    pub(crate) const ALL: [Side; 7] = [
        Side::Ours,
        Side::Tombstones,
        Side::Permit,
        Side::Bare,
        Side::Recipe,
        Side::BareRetryable,
        Side::RecipeRetryable,
    ];

    /// The word for it in an order to a worker.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Tombstones => "tombstones",
            Side::Permit => "permit",
            Side::Bare => "bare",
            Side::Recipe => "recipe",
            Side::BareRetryable => "bare-retryable",
            Side::RecipeRetryable => "recipe-retryable",
        }
    }

    /// The call for this name, as this side makes it.
    pub(crate) fn acquire(self, leases: &LeaseManager, name: impl Into<String>) -> Acquire {
        if self == Side::Permit {
            leases.semaphore(name, LIMIT).acquire()
        } else {
            leases.acquire(name)
        }
    }

    /// The side of this word.
    pub(crate) fn of_word(word: &str) -> Outcome<Side> {
        let side = Side::ALL.into_iter().find(|side| side.word() == word);
        side.ok_or_else(|| format!("not a side: {word}").into())
    }
}

/// A side at work in one collection.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(crate) side: Side,
    pub(crate) collection: Collection<Document>,
    /// The manager of the sides that have one.
    leases: Option<LeaseManager>,
}

/// A lock that a contender has acquired.
pub(crate) enum Held {
    Lease(Lease),
    Lock { name: String, value: String },
}

impl Contender {
    /// In a new collection, with so many live locks of others, so that no side meets entries that another one deleted.
    pub(crate) async fn fresh(
        databases: &Databases,
        side: Side,
        others: usize,
    ) -> Outcome<Contender> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}_{}", side.word(), COUNT.fetch_add(1, Ordering::Relaxed));
        let collection = indexed_collection(databases.by_default().await?, &name).await?;
        insert_others(&collection, others).await?;
        Contender::open(databases, &name, side).await
    }

    /// In a collection that has the indexes. A first pair opens the connection.
    pub(crate) async fn open(databases: &Databases, name: &str, side: Side) -> Outcome<Contender> {
        let database = match side {
            Side::Bare | Side::Recipe => databases.plain().await?,
            Side::Ours
            | Side::Tombstones
            | Side::Permit
            | Side::BareRetryable
            | Side::RecipeRetryable => databases.by_default().await?,
        };
        let builder = LeaseManager::builder(database).collection(name);
        let leases = match side {
            Side::Ours | Side::Permit => Some(builder.build().await?),
            Side::Tombstones => Some(builder.tombstones(true).build().await?),
            Side::Bare | Side::Recipe | Side::BareRetryable | Side::RecipeRetryable => None,
        };
        let collection = journalled_collection(database, name);
        let contender = Contender { side, collection, leases };
        contender.pair(&random_name()).await?;
        Ok(contender)
    }

    /// The same with another manager, in the same collection.
    pub(crate) async fn another(&self, databases: &Databases) -> Outcome<Contender> {
        Contender::open(databases, self.collection.name(), self.side).await
    }

    pub(crate) async fn acquire(&self, name: &str) -> Outcome<Held> {
        if let Some(leases) = &self.leases {
            let acquire = self.side.acquire(leases, name);
            return Ok(Held::Lease(acquire.await?));
        }
        Ok(self.lock(name).await?)
    }

    pub(crate) async fn release(&self, held: Held) -> Outcome<()> {
        match held {
            Held::Lease(lease) => {
                lease.release().await?;
            }
            Held::Lock { name, value } => {
                let lock = doc! { "name": name, "value": value };
                if self.collection.delete_one(lock).await?.deleted_count != 1 {
                    return Err("deleted no lock".into());
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn pair(&self, name: &str) -> Outcome<()> {
        self.release(self.acquire(name).await?).await
    }

    /// One attempt at a name that another holder has. For the driver, a duplicate-key error is the refusal.
    pub(crate) async fn lose(&self, name: &str) -> Outcome<()> {
        let is_refused = match &self.leases {
            Some(leases) => matches!(leases.try_acquire(name).await?, Attempt::Busy(_)),
            None => match self.lock(name).await {
                Err(error) if is_duplicate(&error) => true,
                Err(error) => return Err(error.into()),
                Ok(_) => false,
            },
        };
        if is_refused { Ok(()) } else { Err("was granted what is held".into()) }
    }

    /// Ends its manager.
    pub(crate) async fn close(&self) {
        if let Some(leases) = &self.leases {
            leases.shutdown().await;
        }
    }

    /// Locks by the driver alone.
    async fn lock(&self, name: &str) -> Result<Held, DriverError> {
        let value = random_value();
        if matches!(self.side, Side::Bare | Side::BareRetryable) {
            self.collection.insert_one(lock(name, &value)).await?;
        } else {
            let (filter, update) = (free(name), taken(&value));
            let upsert = self.collection.find_one_and_update(filter, update).upsert(true);
            upsert.return_document(ReturnDocument::After).await?;
        }
        Ok(Held::Lock { name: name.to_owned(), value })
    }
}

/// Inserts live locks of others under random names.
pub(crate) async fn insert_others(collection: &Collection<Document>, count: usize) -> Outcome<()> {
    const BATCH: usize = 10_000;
    let concern = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        let locks = (0..batch).map(|_| other(&random_name()));
        collection.insert_many(locks).ordered(false).write_concern(concern.clone()).await?;
        left -= batch;
    }
    Ok(())
}

/// A lock of another holder that outlives each case.
pub(crate) fn other(name: &str) -> Document {
    doc! { "name": name, "value": random_value(), "expiresAt": in_millis(24 * 3_600_000) }
}

/// A name that sorts anywhere among the others.
pub(crate) fn random_name() -> String {
    format!("invoice:{:016x}", fastrand::u64(..))
}

/// As long as a UUID, which the recipe takes.
fn random_value() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// The document of a hand-written lock.
fn lock(name: &str, value: &str) -> Document {
    doc! { "name": name, "value": value, "expiresAt": in_millis(30_000) }
}

/// The recipe's filter, as in `docs/coming-from.md`.
fn free(name: &str) -> Document {
    let expired = doc! { "expiresAt": { "$lte": DateTime::now() } };
    doc! { "name": name, "$or": [expired, { "expiresAt": null }] }
}

/// The recipe's update. Mongoose adds the version key of a new document.
fn taken(value: &str) -> Document {
    let set = doc! { "value": value, "expiresAt": in_millis(30_000) };
    doc! { "$set": set, "$setOnInsert": { "__v": 0 } }
}

fn in_millis(millis: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + millis)
}

fn is_duplicate(error: &DriverError) -> bool {
    const DUPLICATE_KEY: i32 = 11_000;
    let kind = error.kind.as_ref();
    if let ErrorKind::Write(WriteFailure::WriteError(error)) = kind {
        return error.code == DUPLICATE_KEY;
    }
    matches!(kind, ErrorKind::Command(error) if error.code == DUPLICATE_KEY)
}

#[cfg(test)]
mod tests {
    use super::Side;

    #[test]
    fn each_side_has_a_word_of_its_own() {
        for side in Side::ALL {
            assert_eq!(Side::of_word(side.word()).unwrap(), side);
        }
        assert!(Side::of_word("nobody").is_err());
    }
}
