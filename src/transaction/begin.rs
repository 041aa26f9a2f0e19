//! Begins a transaction, in a task that owns its session.
//!
//! The driver counts a transaction as begun when its first operation has returned, and aborts no other. So that one is
//! ours, and its future is not dropped with the caller's.

use std::time::Duration;

use mongo_lease_core::commands::BeginTransaction;
use mongo_lease_core::rules::{COMMIT_TIMEOUT, Instant, RETRY};
use mongodb::ClientSession;
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::options::{
    Acknowledgment, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
    WriteConcern,
};
use tokio::sync::oneshot;

use super::guard::{Unguarded, guard};
use super::open::Open;
use crate::error::{Error, Result};
use crate::retry::RetryPolicy;

/// A transaction that has begun on the server, or why it has not.
pub(super) struct Begun {
    pub(super) session: ClientSession,
    pub(super) open: Open,
    /// When its guard was sent, if it guards first.
    pub(super) result: Result<Option<Instant>>,
}

/// Its own concerns, whatever the client or the session has.
fn options() -> TransactionOptions {
    let mut majority = WriteConcern::default();
    majority.w = Some(Acknowledgment::Majority);
    majority.journal = Some(true);
    TransactionOptions::builder()
        .read_concern(ReadConcern::local())
        .write_concern(majority)
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .max_commit_time(COMMIT_TIMEOUT)
        .build()
}

/// Marks the session as one with a transaction. Nothing is sent for it.
pub(super) async fn start(session: &mut ClientSession) -> Result<()> {
    let started = session.start_transaction().with_options(options()).await;
    started.map_err(|error| {
        if let ErrorKind::Transaction { message, .. } = error.kind.as_ref() {
            return Error::invalid_option("session", message);
        }
        Error::MongoDb(error)
    })
}

/// Carries the first operation out. If the caller is gone by then, the driver aborts the transaction.
///
/// Returns `None` if there is no answer in time.
pub(super) async fn begin(open: Open, session: ClientSession) -> Option<Begun> {
    let (runner, policy) = (open.engine.runner.clone(), open.engine.policy());
    let (sender, begun) = oneshot::channel();
    runner.spawn(async move {
        let _ = sender.send(first_operation(open, session, policy).await);
    });
    runner.clock().before(policy.deadline, begun).await?.ok()
}

async fn first_operation(open: Open, mut session: ClientSession, policy: RetryPolicy) -> Begun {
    let result = match open.guards_first {
        true => guard_first(&open, &mut session, policy).await.map(Some),
        false => read_first(&open, &mut session).await.map(|()| None).map_err(Error::MongoDb),
    };
    if result.is_err() {
        // A transaction that is not in progress needs no abort, and one that fails is the server's.
        let _ = session.abort_transaction().await;
    }
    Begun { session, open, result }
}

async fn read_first(open: &Open, session: &mut ClientSession) -> Result<(), DriverError> {
    let database = open.database().map_err(DriverError::custom)?;
    let read = BeginTransaction.build(open.engine.runner.collection());
    database.run_command(read).session(session).await.map(drop)
}

/// The guard is the first operation. While others write to the document, it is repeated in another transaction: nothing
/// of the caller's is lost by that.
async fn guard_first(
    open: &Open,
    session: &mut ClientSession,
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
        let _ = session.abort_transaction().await;
        clock.sleep(pause).await;
        start(session).await?;
    }
}
