//! The processes of a simulation, and their commands under way. No public surface.

use std::any::Any;
use std::pin::Pin;
use std::time::Duration;

use mongo_lease_core::commands::{Guard, StreamEvent};
use mongo_lease_core::rules::Instant;
use mongo_lease_memory::CommandKind;
use mongodb::bson::Timestamp;

#[cfg(feature = "__mistakes")]
pub use crate::mistake::{Mistake, make};
#[cfg(feature = "__mistakes")]
pub use mongo_lease_memory::{Lens, make as make_of_server};

/// A task of a process.
pub type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One process, with its connection to the server. All managers on one client are of one process.
pub trait SimulatedProcess: Send + Sync {
    /// By how many millionths its clock is too fast.
    fn drift(&self) -> i32;

    /// The task as the process runs it: not while it is stopped, and never again after its death.
    fn run(&self, task: BoxedTask) -> BoxedTask;

    /// A command leaves the process.
    fn send(&self, command: Box<dyn SentCommand>);

    /// Waits while a message of the change stream is under way. Returns false if the stream breaks instead.
    fn hear(&self) -> Pin<Box<dyn Future<Output = bool> + Send>>;

    /// Changes an event of the change stream that the process hears.
    fn change(&self, event: &mut StreamEvent);
}

/// A command that has left its process.
pub trait SentCommand: Send {
    /// The purpose of the command, as planned faults know it.
    fn kind(&self) -> Option<CommandKind>;

    /// The name of its type.
    fn name(&self) -> &'static str;

    /// The time limit that the server is given.
    fn time_limit(&self) -> Duration;

    /// How long a primary waits for a majority, before it answers that the command is applied and unconfirmed.
    fn acknowledged_within(&self) -> Duration;

    /// The time up to which this read has to see all writes, if it has to.
    fn sees_all_until(&self) -> Option<Timestamp>;

    /// Whether this read shows what the primary has, before a majority has it.
    fn reads_applied(&self) -> bool;

    /// The command itself, and its reply: an `Option` of the command's own type, empty until it is carried out.
    fn parts(&mut self) -> (&mut dyn Any, &mut dyn Any);

    /// The server carries it out, now.
    fn carry_out(&mut self);

    /// The same message once more. Nobody waits for its reply.
    fn copy(&self) -> Box<dyn SentCommand>;

    /// The process hears of its end. Dropped without this, it is as if the process heard nothing and stopped waiting.
    fn answer(self: Box<Self>, answer: SimulatedAnswer);
}

/// The answer to a command that its process hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedAnswer {
    /// The reply of the server that has carried it out.
    Reply,
    /// There is no primary. The command did nothing.
    NoPrimary,
    /// The server could not confirm that the write will last.
    NoMajority,
    /// The server cut the command off at its time limit.
    CutOff,
    /// The connection broke.
    ConnectionBroke,
}

/// A session in which the simulation carries out the steps of one transaction at a time. Dropped, it aborts that if a
/// step of it has returned.
pub trait SimulatedSession: Send {
    /// Marks it as one with a transaction.
    fn start(&mut self);

    /// Sends a step. A guard is answered by whether the grant was there.
    fn send(
        &mut self,
        step: TransactionStep,
    ) -> Pin<Box<dyn Future<Output = Result<bool, TransactionFailure>> + Send + '_>>;

    /// Aborts the transaction on the server, for one who does not have the session.
    fn kill(&self) -> BoxedTask;
}

/// A step of a transaction.
#[derive(Clone, Debug)]
pub enum TransactionStep {
    /// An operation that reads nothing.
    Read,
    /// An operation of its user's.
    Operation,
    /// The write to the lease's document.
    Guard {
        /// The write.
        guard: Guard,
        /// The echo.
        sent: Instant,
    },
    /// The commit.
    Commit,
    /// The abort.
    Abort,
}

/// Why a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFailure {
    /// Another write came between. The server has aborted the transaction.
    Conflict,
    /// The server has no such transaction: it was aborted.
    Gone,
    /// The connection broke: the step may have been carried out.
    Unknown,
}
