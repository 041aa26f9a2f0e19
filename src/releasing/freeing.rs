//! Freeing leases for which nobody waits: their documents are deleted, or become tombstones.
//!
//! Another program's index or validator may refuse a tombstone. Then the document is deleted, as without tombstones.

use std::sync::atomic::Ordering;

use super::Releases;
use crate::clock;
use crate::commands::release::{Deleted, RefusedStatements, Release, Target};
use crate::commands::tombstone::Tombstone;
use crate::error::{Error, Failure};
use crate::rules::time::Instant;
use crate::runner::{Answer, Answered, Limits, Runner};
use crate::telemetry;

impl Releases {
    /// Frees these leases, as often as the limits allow.
    pub(super) async fn free(
        &self,
        runner: &Runner,
        targets: Vec<Target>,
        limits: Limits,
    ) -> Answered<Answer<Deleted>> {
        if !self.tombstones {
            return runner.run(self.release(targets), limits).await;
        }
        let command = self.tombstone(targets)?;
        let made = runner.run(command.clone(), limits).await?;
        let (ended, maybe) = (made.reply.ended, made.earlier_maybe_applied);
        let Some(refused) = self.refused(command.targets, made.reply.refused) else {
            return Ok(Answer { reply: ended, earlier_maybe_applied: maybe });
        };
        let any = maybe || ended.count > 0;
        let deleted = runner.run(self.release(refused), limits).await;
        let deleted = deleted.map_err(|failure| failure.or_maybe(any))?;
        let earlier_maybe_applied = maybe || deleted.earlier_maybe_applied;
        Ok(Answer { reply: ended.and(deleted.reply), earlier_maybe_applied })
    }

    /// The same, in one attempt.
    pub(super) async fn free_once(
        &self,
        runner: &Runner,
        targets: Vec<Target>,
        deadline: Instant,
    ) -> Answered<Deleted> {
        if !self.tombstones {
            return runner.attempt(&self.release(targets), deadline).await;
        }
        let command = self.tombstone(targets)?;
        let made = runner.attempt(&command, deadline).await?;
        let Some(refused) = self.refused(command.targets, made.refused) else {
            return Ok(made.ended);
        };
        let deleted = runner.attempt(&self.release(refused), deadline).await;
        let any = made.ended.count > 0;
        Ok(made.ended.and(deleted.map_err(|failure| failure.or_maybe(any))?))
    }

    fn release(&self, targets: Vec<Target>) -> Release {
        Release { collection: self.collection.clone(), targets }
    }

    fn tombstone(&self, targets: Vec<Target>) -> Result<Tombstone, Failure> {
        let values = clock::tombstone_values()?;
        Ok(Tombstone { collection: self.collection.clone(), targets, values })
    }

    /// The targets whose tombstones were refused, if any were.
    fn refused(
        &self,
        targets: Vec<Target>,
        refused: Option<RefusedStatements>,
    ) -> Option<Vec<Target>> {
        let (places, why) = refused?;
        if !self.told_of_refusal.swap(true, Ordering::Relaxed) {
            telemetry::tombstones_refused(&Error::MongoDb(why).to_string());
        }
        Some(places.into_iter().filter_map(|place| targets.get(place).cloned()).collect())
    }
}
