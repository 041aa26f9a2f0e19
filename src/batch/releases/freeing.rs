//! Frees leases for which nobody waits: deletes their documents, or makes them tombstones.
//!
//! Another program's index or validator may refuse a tombstone. Then the document is deleted, as if tombstones were
//! off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock;
use crate::error::Error;
use crate::failure::{Failure, decode_failure};
use crate::runner::{AttemptLimits, AttemptResult, Slot};
use crate::telemetry;
use mongo_lease_core::commands::{
    DecodeError, Delete, Ended, RefusedStatements, ReleaseTarget, Tombstone,
};
use mongo_lease_core::rules::REFUSED;

/// How to free the documents of leases for which nobody waits.
#[derive(Clone, Debug)]
pub(crate) struct Freeing {
    /// Whether a release makes a tombstone.
    tombstones: bool,
    /// Whether the server's refusal of tombstones has been reported already.
    told_of_refusal: Arc<AtomicBool>,
}

impl Freeing {
    pub(crate) fn new(tombstones: bool) -> Freeing {
        let told_of_refusal = Arc::default();
        Freeing { tombstones, told_of_refusal }
    }

    /// Frees these leases, in one attempt.
    pub(super) async fn free(
        &self,
        slot: &Slot,
        targets: Vec<ReleaseTarget>,
        limits: AttemptLimits,
    ) -> AttemptResult<Ended> {
        if !self.tombstones {
            return slot.run(&self.delete(targets), limits).await;
        }
        let command = self.tombstone(targets)?;
        let made = slot.run(&command, limits.clone()).await?;
        let Some(refused) = self.refused(command.targets, made.refused) else {
            return Ok(made.ended);
        };
        let deleted = slot.run(&self.delete(refused), limits).await;
        let any = made.ended.count > 0;
        Ok(made.ended.and(deleted.map_err(|failure| failure.or_maybe(any))?))
    }

    fn delete(&self, targets: Vec<ReleaseTarget>) -> Delete {
        Delete { targets }
    }

    fn tombstone(&self, targets: Vec<ReleaseTarget>) -> Result<Tombstone, Failure> {
        let values = clock::tombstone_values()?;
        Ok(Tombstone { targets, values })
    }

    /// The targets whose tombstones the server refused.
    fn refused(
        &self,
        targets: Vec<ReleaseTarget>,
        refused: Option<RefusedStatements>,
    ) -> Option<Vec<ReleaseTarget>> {
        let (places, source) = refused?;
        if !self.told_of_refusal.swap(true, Ordering::Relaxed) {
            let why = decode_failure(DecodeError::Write { source, outcome: REFUSED });
            telemetry::tombstones_refused(&Error::from(why).to_string());
        }
        Some(places.into_iter().filter_map(|place| targets.get(place).cloned()).collect())
    }
}
