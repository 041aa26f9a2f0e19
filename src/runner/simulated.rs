//! Attempts of a simulated process: the simulation's network and server decide what becomes of each.

use std::any::{Any, type_name};
use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::rules::{Instant, MAYBE_APPLIED};
use mongo_lease_memory::{CommandKind, InMemory};
use tokio::sync::oneshot;

use super::AttemptResult;
use crate::failure::{Cause, Failure, command_error, driver_failure};
use crate::memory::MemoryStore;
use crate::memory::simulated::{SentCommand, SimulatedAnswer, SimulatedProcess};

/// Sends the command, and waits for whatever its process hears of it.
pub(super) async fn send<C: InMemory>(
    store: &MemoryStore,
    process: &Arc<dyn SimulatedProcess>,
    collection: &str,
    command: &C,
    sent: Instant,
    max_time_ms: i64,
) -> AttemptResult<C::Reply> {
    let (sender, answer) = oneshot::channel();
    let message = Message {
        store: store.clone(),
        collection: collection.to_owned(),
        command: command.clone(),
        sent,
        time_limit: Duration::from_millis(u64::try_from(max_time_ms).unwrap_or(0)),
        reply: None,
        sender: Some(sender),
    };
    process.send(Box::new(message));
    answer.await.unwrap_or_else(|_| Err(connection_broke()))
}

pub(super) fn connection_broke() -> Failure {
    let broke = IoError::new(IoErrorKind::ConnectionReset, "the simulated connection broke");
    driver_failure(broke.into())
}

/// A command under way.
struct Message<C: InMemory> {
    store: MemoryStore,
    collection: String,
    command: C,
    sent: Instant,
    time_limit: Duration,
    reply: Option<C::Reply>,
    sender: Option<oneshot::Sender<AttemptResult<C::Reply>>>,
}

impl<C: InMemory> SentCommand for Message<C> {
    fn kind(&self) -> Option<CommandKind> {
        C::KIND
    }

    fn name(&self) -> &'static str {
        type_name::<C>().rsplit("::").next().unwrap_or_default()
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    fn parts(&mut self) -> (&mut dyn Any, &mut dyn Any) {
        (&mut self.command, &mut self.reply)
    }

    fn carry_out(&mut self) {
        let (command, sent) = (&self.command, self.sent);
        let reply = self.store.with_collection(&self.collection, |it| command.carry_out(it, sent));
        self.reply = Some(reply);
    }

    fn copy(&self) -> Box<dyn SentCommand> {
        Box::new(Message {
            store: self.store.clone(),
            collection: self.collection.clone(),
            command: self.command.clone(),
            sender: None,
            reply: None,
            ..*self
        })
    }

    fn answer(self: Box<Self>, answer: SimulatedAnswer) {
        let Message { sender: Some(sender), reply, .. } = *self else { return };
        let result = match (answer, reply) {
            (SimulatedAnswer::Reply, Some(reply)) => Ok(reply),
            (SimulatedAnswer::NoPrimary, _) => {
                Err(driver_failure(command_error(10_107, "NotWritablePrimary")))
            }
            (SimulatedAnswer::NoMajority, _) => {
                let cause = Cause::WriteConcern("the simulated write has no majority".to_owned());
                Err(Failure { outcome: MAYBE_APPLIED, cause })
            }
            (SimulatedAnswer::CutOff, _) => {
                Err(driver_failure(command_error(50, "MaxTimeMSExpired")))
            }
            (SimulatedAnswer::ConnectionBroke | SimulatedAnswer::Reply, _) => {
                Err(connection_broke())
            }
        };
        // Its process may have stopped waiting.
        let _ = sender.send(result);
    }
}
