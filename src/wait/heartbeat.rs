//! Sends the heartbeats of all waiters: one task per manager, one command for all names.
//!
//! The task waits for the clock only. As in the renewer, a heartbeat that is held up goes in its own command from then
//! on. So a transaction on one lease document costs the other waiters at most one short command.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::commands::failure::Failure;
use crate::commands::heartbeat::{FindEntries, Heartbeat};
use crate::error::Error;
use crate::hints::HeldUpNames;
use crate::retry::{self, RetryPolicy};
use crate::rules::batching::pieces;
use crate::rules::time::Instant;
use crate::runner::Runner;
use crate::telemetry;
use crate::wait::waiters::{Signal, WaiterSlot, Waiters};

/// The maximum number of waiters in one command.
const BATCH_MAX: usize = 1_000;

/// Starts the task. It ends when `stop` is cancelled.
pub(crate) fn start(
    runner: &Runner,
    waiters: Waiters,
    held_up: &HeldUpNames,
    stop: CancellationToken,
) {
    let heart = HeartbeatTask { runner: runner.clone(), waiters, held_up: held_up.clone() };
    runner.spawn_service(heart.work(stop));
}

#[derive(Clone)]
struct HeartbeatTask {
    runner: Runner,
    waiters: Waiters,
    held_up: HeldUpNames,
}

impl HeartbeatTask {
    async fn work(self, stop: CancellationToken) {
        loop {
            let (due, wake_at) = self.waiters.due(self.runner.clock().now());
            let (alone, together): (Vec<_>, Vec<_>) =
                due.into_iter().partition(|slot| slot.goes_alone());
            for batch in together.chunks(BATCH_MAX) {
                self.start_heartbeat(batch.to_vec(), self.waiters.life() / 6, false);
            }
            for slot in alone {
                self.start_heartbeat(vec![slot], self.waiters.life() / 6, true);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.waiters.sooner() => {}
                () = self.runner.clock().sleep_until(wake_at) => {}
            }
        }
    }

    fn start_heartbeat(&self, batch: Vec<Arc<WaiterSlot>>, time: Duration, is_held_up: bool) {
        let heart = self.clone();
        self.runner.spawn(async move {
            heart.send(batch, time, is_held_up).await;
        });
    }

    async fn send(&self, batch: Vec<Arc<WaiterSlot>>, time: Duration, is_held_up: bool) {
        let entries: Vec<_> = batch.iter().map(|slot| slot.entry()).collect();
        // The reply counts documents. It does not tell whether all of several entries in one are still there.
        let documents = entries_of_documents(&batch);
        let asked = i64::try_from(documents.len()).unwrap_or(i64::MAX);
        let (single, together): (Vec<_>, Vec<_>) =
            batch.iter().cloned().partition(|slot| documents[slot.name()] == 1);
        let life = self.waiters.life();
        let command = Heartbeat { entries, life };
        let policy = RetryPolicy::one_attempt(self.runner.clock().now(), time);
        match retry::run_batch(&self.runner, command, policy, is_held_up).await {
            Ok(reply) if reply.matched == asked => {
                if is_held_up {
                    batch.iter().for_each(|slot| self.held_up.went_through(slot.name()));
                }
                single.iter().for_each(|slot| slot.heartbeat_confirmed(reply.sent, life));
                if !together.is_empty() {
                    self.sort_out(&together, reply.sent, policy).await;
                }
            }
            Ok(reply) => self.sort_out(&batch, reply.sent, policy).await,
            Err(failure) if failure.is_held_up() => match pieces(batch, |slot| slot.name()) {
                Ok(pieces) => {
                    for piece in pieces {
                        self.start_heartbeat(piece, time * 2 / 3, false);
                    }
                }
                Err(batch) => {
                    for slot in &batch {
                        slot.is_held_up();
                        self.held_up.found(slot.name());
                    }
                    self.failed(&batch, failure);
                }
            },
            Err(failure) => self.failed(&batch, failure),
        }
    }

    /// Some waiters have no queue entry: makes them send an attempt.
    async fn sort_out(&self, batch: &[Arc<WaiterSlot>], sent: Instant, policy: RetryPolicy) {
        let entries = batch.iter().map(|slot| slot.entry()).collect();
        let look = FindEntries { entries };
        let policy = RetryPolicy::one_attempt(self.runner.clock().now(), policy.attempt);
        let present: HashSet<_> = match retry::run(&self.runner, look, policy).await {
            Ok(answer) => answer.reply.into_iter().collect(),
            Err(failure) => return self.failed(batch, failure),
        };
        for slot in batch {
            match present.contains(&slot.entry()) {
                true => slot.heartbeat_confirmed(sent, self.waiters.life()),
                false => slot.signal(Signal::Recheck),
            }
        }
    }

    /// Schedules another try soon. After a failover, the first of these keeps the queue in order.
    fn failed(&self, batch: &[Arc<WaiterSlot>], failure: Failure) {
        telemetry::heartbeat_failed(batch.len(), &Error::from(failure).to_string());
        let soon = self.runner.clock().now().after(self.waiters.life() / 12);
        batch.iter().for_each(|slot| slot.heartbeat_by(soon));
        self.waiters.look_again();
    }
}

/// How many of these calls have their entries in each document. Several calls for permits of one lease share one.
fn entries_of_documents(batch: &[Arc<WaiterSlot>]) -> HashMap<&str, usize> {
    let mut documents = HashMap::new();
    for slot in batch {
        *documents.entry(slot.name()).or_default() += 1;
    }
    documents
}
