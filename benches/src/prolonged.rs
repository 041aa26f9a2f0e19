//! The floor of renewals: locks of the driver alone, whose expiry it prolongs by `update_many`.

use std::time::Duration;

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease_measure::{Outcome, host};

use crate::side::{other, random_name};

/// Names of one command, as renewals have them.
const BATCH: usize = 2_000;
/// Documents of one insert.
const INSERTED: usize = 10_000;

/// Locks with random names in one collection.
pub(crate) struct Prolonged {
    collection: Collection<Document>,
    names: Vec<String>,
}

impl Prolonged {
    /// Inserts so many.
    pub(crate) async fn insert(
        collection: Collection<Document>,
        count: usize,
    ) -> Outcome<Prolonged> {
        let names: Vec<String> = (0..count).map(|_| random_name()).collect();
        for batch in names.chunks(INSERTED) {
            collection.insert_many(batch.iter().map(|name| other(name))).ordered(false).await?;
        }
        Ok(Prolonged { collection, names })
    }

    /// Prolongs all of them at the begin of each of so many periods, as renewals do once in a period, and returns this
    /// process's processor time.
    pub(crate) async fn prolong(&self, period: Duration, periods: usize) -> Outcome<Duration> {
        let before = host::own_processor_time();
        let mut ticks = tokio::time::interval(period);
        for _ in 0..periods {
            ticks.tick().await;
            let until = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
            for batch in self.names.chunks(BATCH) {
                let filter = doc! { "name": { "$in": batch } };
                let update = doc! { "$set": { "expiresAt": until } };
                let matched = self.collection.update_many(filter, update).await?.matched_count;
                if matched != u64::try_from(batch.len())? {
                    return Err("a lock has gone".into());
                }
            }
        }
        // The last period ends as well: this time is what is measured.
        ticks.tick().await;
        Ok(host::own_processor_time() - before)
    }

    /// Deletes all of them.
    pub(crate) async fn remove(self) -> Outcome<()> {
        for batch in self.names.chunks(BATCH) {
            self.collection.delete_many(doc! { "name": { "$in": batch } }).await?;
        }
        Ok(())
    }
}
