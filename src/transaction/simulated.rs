//! Transactions under a lease on a simulated server. No public surface.

use std::fmt;
use std::io::{Error as IoError, ErrorKind as IoErrorKind};

use mongo_lease_core::commands::Guard;
use mongo_lease_core::rules::{CommitAnswer, Instant};
use mongodb::error::Error as DriverError;

use super::begin::begin;
use super::no_answer;
use super::open::{Open, UnderLease};
use super::running::Running;
use super::session::{GuardFailure, Session, WRITE_CONFLICT};
use crate::error::{Error, Result};
use crate::failure::command_error;
use crate::lease::Lease;
use crate::memory::simulated::{SimulatedSession, TransactionFailure, TransactionStep};

/// The server's code for a transaction that it does not know.
const NO_SUCH_TRANSACTION: i32 = 251;

/// A transaction as [`Transaction`](super::Transaction), in a session of the simulation.
#[doc(hidden)]
#[must_use = "a transaction that is dropped is aborted"]
#[clippy::has_significant_drop]
pub struct SimulatedTransaction {
    running: Running<Box<dyn SimulatedSession>>,
}

#[doc(hidden)]
impl Lease {
    /// Begins a transaction as [`Lease::transaction`] does.
    pub async fn simulated_transaction(
        &self,
        session: Box<dyn SimulatedSession>,
    ) -> Result<SimulatedTransaction> {
        let open = Open::begin(self).await?;
        let begun = begin(open, session).await.ok_or_else(no_answer)?;
        let running = Running::new(begun).map_err(|(_, error)| error)?;
        Ok(SimulatedTransaction { running })
    }
}

impl SimulatedTransaction {
    /// An operation of its user's.
    pub async fn operate(&mut self) -> Result<()> {
        let done = self.running.session().send(TransactionStep::Operation).await;
        done.map(drop).map_err(|failure| Error::MongoDb(driver_error(failure)))
    }

    /// Commits as [`Transaction::commit`](super::Transaction::commit) does.
    pub async fn commit(self) -> Result<()> {
        self.running.commit().await?.1
    }
}

impl fmt::Debug for SimulatedTransaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimulatedTransaction").finish_non_exhaustive()
    }
}

impl Session for Box<dyn SimulatedSession> {
    async fn start(&mut self) -> Result<()> {
        self.as_mut().start();
        Ok(())
    }

    async fn is_in_progress(&mut self) -> bool {
        true
    }

    fn kill(&self, _under: &UnderLease) -> impl Future<Output = ()> + Send + 'static {
        self.as_ref().kill()
    }

    async fn read(&mut self, _under: &UnderLease) -> Result<()> {
        let read = self.send(TransactionStep::Read).await;
        read.map(drop).map_err(|failure| Error::MongoDb(driver_error(failure)))
    }

    async fn write_guard(
        &mut self,
        _under: &UnderLease,
        guard: &Guard,
        sent: Instant,
    ) -> Result<bool, GuardFailure> {
        let guard = TransactionStep::Guard { guard: guard.clone(), sent };
        self.send(guard).await.map_err(|failure| {
            let error = Error::MongoDb(driver_error(failure));
            match failure {
                TransactionFailure::Conflict => GuardFailure::Conflict(error),
                TransactionFailure::Gone | TransactionFailure::Unknown => {
                    GuardFailure::Other(error)
                }
            }
        })
    }

    async fn commit(&mut self) -> Result<(), (CommitAnswer, DriverError)> {
        let committed = self.send(TransactionStep::Commit).await;
        committed.map(drop).map_err(|failure| {
            let answer = match failure {
                TransactionFailure::Unknown => CommitAnswer::Unknown { may_repeat: true },
                TransactionFailure::Conflict | TransactionFailure::Gone => CommitAnswer::Aborted,
            };
            (answer, driver_error(failure))
        })
    }

    async fn abort(&mut self) {
        let _ = self.send(TransactionStep::Abort).await;
    }
}

/// The error as the driver has it.
fn driver_error(failure: TransactionFailure) -> DriverError {
    match failure {
        TransactionFailure::Conflict => command_error(WRITE_CONFLICT, "WriteConflict"),
        TransactionFailure::Gone => command_error(NO_SUCH_TRANSACTION, "NoSuchTransaction"),
        TransactionFailure::Unknown => {
            IoError::new(IoErrorKind::ConnectionReset, "the simulated connection broke").into()
        }
    }
}
