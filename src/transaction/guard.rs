//! The write to the lease's document in the transaction.

use mongo_lease_core::commands::{Guard, RenewalTarget};
use mongo_lease_core::rules::{HoldEvent, Instant};

use super::open::Open;
use super::session::{GuardFailure, Session};
use crate::error::{Error, Result};
use crate::hold::unmatched::{Unmatched, why_unmatched};

/// Why a guard did not go through.
pub(super) enum Unguarded {
    /// Another write to the document came between, and the lease is held. It can succeed in another transaction.
    Conflict(Error),
    Other(Error),
}

impl From<Unguarded> for Error {
    fn from(unguarded: Unguarded) -> Error {
        match unguarded {
            Unguarded::Conflict(error) | Unguarded::Other(error) => error,
        }
    }
}

/// Writes to the lease's document. Returns when that was sent: from then on its commit prolongs the lease.
pub(super) async fn guard(open: &Open, session: &mut impl Session) -> Result<Instant, Unguarded> {
    let RenewalTarget { key, lasts } = open.holding.renewal_target();
    let guard = Guard { key, lasts };
    let sent = open.engine.clock().now().whole_micros();
    match session.write_guard(open, &guard, sent).await {
        Ok(true) => Ok(sent),
        Ok(false) => Err(match not_held(open).await.map_err(Unguarded::Other)? {
            Some(error) => Unguarded::Other(error),
            None => {
                let reason = "the lease exists, but the guard did not match it".to_owned();
                Unguarded::Other(Error::Unknown { reason, source: None })
            }
        }),
        Err(GuardFailure::Conflict(error)) => Err(conflict(open, error).await),
        Err(GuardFailure::Other(error)) => Err(Unguarded::Other(error)),
    }
}

/// A take-over conflicts as well as any other write: a look at the document tells.
async fn conflict(open: &Open, error: Error) -> Unguarded {
    match not_held(open).await {
        Ok(Some(lost)) => Unguarded::Other(lost),
        // To repeat the transaction is safe, whatever has happened to the lease.
        Ok(None) | Err(_) => Unguarded::Conflict(error),
    }
}

/// Why the lease is not held any more; `None` if it is.
async fn not_held(open: &Open) -> Result<Option<Error>> {
    let (runner, key) = (&open.engine.runner, &open.holding.key);
    let found = why_unmatched(runner, key, false, open.engine.policy()).await?;
    Ok(match found {
        Unmatched::Lost(reason) => {
            let _ = open.holding.on(HoldEvent::NotOurs, Some(reason));
            open.check().err()
        }
        Unmatched::Damaged(found) => Some(Error::damaged(open.name(), found)),
        Unmatched::Present => None,
    })
}
