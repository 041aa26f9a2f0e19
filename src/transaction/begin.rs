//! Begins a transaction: by its guard, if that is first, in a task that owns the session.

use std::time::Duration;

use mongo_lease_core::rules::{Instant, RETRY};
use tokio::sync::oneshot;

use super::guard::{Unguarded, guard};
use super::open::Open;
use super::session::Session;
use crate::error::Result;
use crate::retry::RetryPolicy;

/// A transaction that its user can begin with, or why not.
pub(super) struct Begun<S> {
    pub(super) session: S,
    pub(super) open: Open,
    /// When its guard was sent, if it guards first.
    pub(super) result: Result<Option<Instant>>,
}

/// Writes the guard that is first; without one, nothing is sent. If the caller is gone by then, the driver aborts the
/// transaction.
///
/// Returns `None` if there is no answer in time.
pub(super) async fn begin<S: Session>(open: Open, session: S) -> Option<Begun<S>> {
    if !open.guards_first {
        return Some(Begun { session, open, result: Ok(None) });
    }
    let (runner, policy) = (open.engine.runner.clone(), open.engine.policy());
    let (sender, begun) = oneshot::channel();
    runner.spawn(async move {
        let mut session = session;
        let result = guard_first(&open, &mut session, policy).await;
        if result.is_err() {
            // A transaction that is not in progress needs no abort, and one that fails is the server's.
            session.abort().await;
        }
        let _ = sender.send(Begun { session, open, result: result.map(Some) });
    });
    runner.clock().before(policy.deadline, begun).await?.ok()
}

/// The guard is the first operation. While others write to the document, it is repeated in another transaction: nothing
/// of the caller's is lost by that.
async fn guard_first(
    open: &Open,
    session: &mut impl Session,
    policy: RetryPolicy,
) -> Result<Instant> {
    let clock = open.engine.clock();
    let mut delays = clock.jittered(RETRY);
    loop {
        open.check()?;
        // Before sending: from now on a renewal might wait for this transaction.
        open.note_blocked(true);
        let conflict = match guard(open, session).await {
            Ok(sent) => return Ok(sent),
            Err(Unguarded::Conflict(error)) => error,
            Err(Unguarded::Other(error)) => return Err(error),
        };
        let pause: Duration = delays.next().unwrap_or(RETRY.longest);
        if clock.now().after(pause) >= policy.deadline {
            return Err(conflict);
        }
        session.abort().await;
        clock.sleep(pause).await;
        session.start().await?;
    }
}
