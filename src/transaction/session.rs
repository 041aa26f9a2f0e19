//! The session of a transaction under a lease: the driver's, or that of a simulation.

#[cfg(test)]
mod tests;

use mongo_lease_core::commands::{EmptyRead, Guard};
use mongo_lease_core::rules::{COMMIT_TIMEOUT, CommitAnswer, Instant, MAYBE_APPLIED};
use mongodb::ClientSession;
use mongodb::error::{Error as DriverError, ErrorKind, WriteFailure};
use mongodb::options::{
    Acknowledgment, ReadConcern, ReadPreference, RunCommandOptions, SelectionCriteria,
    TransactionOptions, WriteConcern,
};

use super::open::UnderLease;
use crate::error::{Error, Result};
use crate::failure::{Failure, decode_failure, driver_failure, driver_outcome};

/// The server's code for a write to a document that another one has changed since the transaction's snapshot.
pub(super) const WRITE_CONFLICT: i32 = 112;

/// Why the write of a guard failed.
pub(super) enum GuardFailure {
    /// Another write to the document came between.
    Conflict(Error),
    Other(Error),
}

/// The operations on a session that a transaction under a lease needs.
pub(super) trait Session: Send + 'static {
    /// Marks the session as one with a transaction. Nothing is sent for it.
    fn start(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Whether its transaction was not ended by a call on the session.
    fn is_in_progress(&mut self) -> impl Future<Output = bool> + Send;

    /// Aborts its transaction without the session, which is in its user's hands.
    fn kill(&self, under: &UnderLease) -> impl Future<Output = ()> + Send + 'static;

    /// An operation that reads nothing.
    fn read(&mut self, under: &UnderLease) -> impl Future<Output = Result<()>> + Send;

    /// Writes to the lease's document. Returns whether the grant was there.
    fn write_guard(
        &mut self,
        under: &UnderLease,
        guard: &Guard,
        sent: Instant,
    ) -> impl Future<Output = Result<bool, GuardFailure>> + Send;

    /// One attempt to commit.
    fn commit(&mut self) -> impl Future<Output = Result<(), (CommitAnswer, DriverError)>> + Send;

    /// One attempt to abort. It sends nothing if no operation has returned.
    fn abort(&mut self) -> impl Future<Output = ()> + Send;

    /// Aborts a transaction in which no operation of ours has returned, also if one that was dropped has begun it.
    fn give_up(&mut self, under: &UnderLease) -> impl Future<Output = ()> + Send {
        async move {
            // If its user has ended it, this starts the next one, whose first operation ends it on the server as well.
            self.is_in_progress().await;
            let _ = self.read(under).await;
            self.abort().await;
        }
    }
}

impl Session for ClientSession {
    async fn start(&mut self) -> Result<()> {
        let started = self.start_transaction().with_options(options()).await;
        started.map_err(|error| {
            if let ErrorKind::Transaction { message, .. } = error.kind.as_ref() {
                return Error::invalid_option("session", message);
            }
            Error::MongoDb(error)
        })
    }

    /// The driver tells nobody the state of a session, but refuses to begin a second transaction in it.
    async fn is_in_progress(&mut self) -> bool {
        self.start_transaction().await.is_err()
    }

    fn kill(&self, under: &UnderLease) -> impl Future<Output = ()> + Send + 'static {
        under.kill(self.id())
    }

    async fn read(&mut self, under: &UnderLease) -> Result<()> {
        let read = EmptyRead.build(under.engine.runner.collection());
        under.database()?.run_command(read).session(self).await.map(drop).map_err(Error::MongoDb)
    }

    async fn write_guard(
        &mut self,
        under: &UnderLease,
        guard: &Guard,
        sent: Instant,
    ) -> Result<bool, GuardFailure> {
        let database = under.database().map_err(GuardFailure::Other)?;
        let command = guard.build(under.engine.runner.collection(), sent);
        let reply = match database.run_command(command).session(self).await {
            Ok(reply) => reply,
            Err(error) => {
                let failure = driver_failure(error.clone());
                let error = Error::MongoDb(error);
                return Err(match failure.server_code() {
                    Some(WRITE_CONFLICT) => GuardFailure::Conflict(error),
                    Some(_) | None => GuardFailure::Other(error),
                });
            }
        };
        let guarded = guard.decode(&reply, sent).map_err(|error| {
            let failure = Failure { outcome: MAYBE_APPLIED, ..decode_failure(error) };
            GuardFailure::Other(failure.into())
        })?;
        Ok(guarded.matched > 0)
    }

    async fn commit(&mut self) -> Result<(), (CommitAnswer, DriverError)> {
        self.commit_transaction().await.map_err(|error| (answer_of(&error), error))
    }

    async fn abort(&mut self) {
        let _ = self.abort_transaction().await;
    }
}

/// Fails as the driver does if the session, in which a transaction was started, is of another client than the database.
///
/// Nobody but the driver can tell. It looks at that before it refuses to read from a secondary, and sends neither.
pub(super) async fn check_client(session: &mut ClientSession, under: &UnderLease) -> Result<()> {
    let secondary = ReadPreference::Secondary { options: None };
    let options = RunCommandOptions::builder()
        .selection_criteria(SelectionCriteria::ReadPreference(secondary))
        .build();
    let database = under.database()?;
    let read = EmptyRead.build(under.engine.runner.collection());
    match database.run_command(read).with_options(options).session(&mut *session).await {
        Err(error) if !matches!(error.kind.as_ref(), ErrorKind::Transaction { .. }) => {
            session.abort().await;
            Err(Error::MongoDb(error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
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

/// The meaning of the driver's error of a commit.
fn answer_of(error: &DriverError) -> CommitAnswer {
    // The driver may add new kinds.
    #[allow(clippy::wildcard_enum_match_arm)]
    let code = match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(failed)) => Some(failed.code),
        _ => None,
    };
    CommitAnswer::of_error(|label| error.contains_label(label), code, driver_outcome(error))
}
