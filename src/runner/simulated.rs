//! Attempts of a simulated process: the simulation's network and server decide what becomes of each.

use std::any::{Any, type_name};
use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::Unconfirmed;
use mongo_lease_core::rules::{Applied, Instant, MAYBE_APPLIED, from_millis};
use mongo_lease_memory::{CommandKind, InMemory};
use mongodb::bson::Timestamp;
use tokio::sync::oneshot;

use super::AppliedResult;
use super::attempt::ServerTimes;
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
    times: ServerTimes,
) -> AppliedResult<C::Reply> {
    let (sender, answer) = oneshot::channel();
    let message = Message {
        store: store.clone(),
        collection: collection.to_owned(),
        command: command.clone(),
        sent,
        time_limit: from_millis(times.max_ms),
        acknowledged_within: from_millis(times.acknowledged_ms.unwrap_or(times.max_ms)),
        reply: None,
        at: None,
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
    acknowledged_within: Duration,
    reply: Option<C::Reply>,
    /// The time of the newest write when it was carried out.
    at: Option<Timestamp>,
    sender: Option<oneshot::Sender<AppliedResult<C::Reply>>>,
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

    fn acknowledged_within(&self) -> Duration {
        self.acknowledged_within
    }

    fn sees_all_until(&self) -> Option<Timestamp> {
        self.command.sees_all_until()
    }

    fn reads_applied(&self) -> bool {
        self.command.reads_applied()
    }

    fn parts(&mut self) -> (&mut dyn Any, &mut dyn Any) {
        (&mut self.command, &mut self.reply)
    }

    fn carry_out(&mut self) {
        let (command, sent) = (&self.command, self.sent);
        let (reply, at) = self.store.with_collection(&self.collection, |it| {
            (command.carry_out(it, sent), it.operation_time())
        });
        (self.reply, self.at) = (Some(reply), Some(at));
    }

    fn copy(&self) -> Box<dyn SentCommand> {
        Box::new(Message {
            store: self.store.clone(),
            collection: self.collection.clone(),
            command: self.command.clone(),
            sender: None,
            reply: None,
            at: None,
            ..*self
        })
    }

    fn answer(self: Box<Self>, answer: SimulatedAnswer) {
        let Message { sender: Some(sender), reply, at, .. } = *self else { return };
        let result = match (answer, reply) {
            (SimulatedAnswer::Reply, Some(reply)) => Ok(Applied::Confirmed(reply)),
            (SimulatedAnswer::NoPrimary, _) => {
                Err(driver_failure(command_error(10_107, "NotWritablePrimary")))
            }
            (SimulatedAnswer::NoMajority, reply) => {
                let message = "the simulated write has no majority".to_owned();
                match reply.zip(at) {
                    Some((reply, at)) => {
                        Ok(Applied::Unconfirmed(reply, Unconfirmed { at, message }))
                    }
                    None => {
                        let cause = Cause::WriteConcern(message);
                        Err(Failure { outcome: MAYBE_APPLIED, cause })
                    }
                }
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
