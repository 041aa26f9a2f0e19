//! Sends the heartbeats of all waiters: one task per manager, one command for all names.
//!
//! The task waits for the clock only. The heartbeats of a held-up document go in their own command: so a transaction on
//! one lease document costs the other waiters at most one short command.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{FindEntries, Heartbeat, Renewed};
use mongo_lease_core::rules::{after_look, apart, pieces};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::failure::Failure;
use crate::hints::NameHint;
use crate::retry::{self, RetryPolicy};
use crate::runner::Runner;
use crate::telemetry;
use crate::wait::waiters::{Signal, WaiterSlot, Waiters};

/// The maximum number of waiters in one command.
const BATCH_MAX: usize = 1_000;

/// Starts the task. It ends when `stop` is cancelled.
pub(crate) fn start(
    runner: &Runner,
    waiters: Waiters,
    held_up: &NameHint,
    stop: CancellationToken,
) {
    let heart = HeartbeatTask { runner: runner.clone(), waiters, held_up: held_up.clone() };
    runner.spawn_service(heart.work(stop));
}

#[derive(Clone)]
struct HeartbeatTask {
    runner: Runner,
    waiters: Waiters,
    held_up: NameHint,
}

impl HeartbeatTask {
    async fn work(self, stop: CancellationToken) {
        loop {
            let (due, wake_at) = self.waiters.due(self.runner.clock().now());
            let (alone, together) =
                apart(due, |slot| slot.name(), |slot| self.held_up.has(slot.name()));
            for batch in together.chunks(BATCH_MAX) {
                self.start_heartbeat(batch.to_vec(), self.waiters.life() / 6, false);
            }
            for document in alone {
                self.start_heartbeat(document, self.waiters.life() / 6, true);
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
        self.runner.spawn(self.clone().send(batch, time, is_held_up));
    }

    async fn send(self, batch: Vec<Arc<WaiterSlot>>, time: Duration, is_held_up: bool) {
        let entries: Vec<_> = batch.iter().map(|slot| slot.entry()).collect();
        let documents: HashSet<&str> = batch.iter().map(|slot| slot.name()).collect();
        let asked = i64::try_from(documents.len()).unwrap_or(i64::MAX);
        let life = self.waiters.life();
        let command = Heartbeat { entries, life };
        let policy = RetryPolicy::one_attempt(self.runner.clock().now(), time);
        match retry::run_batch(&self.runner, command, policy, is_held_up).await {
            Ok(reply) if reply.matched == asked => {
                if is_held_up {
                    self.note_held_up(&batch, false);
                }
                batch.iter().for_each(|slot| slot.heartbeat_confirmed(reply.sent, life));
            }
            Ok(reply) => self.sort_out(batch, reply, time).await,
            Err(failure) if failure.is_held_up() => match pieces(batch, |slot| slot.name()) {
                Ok(pieces) => {
                    for piece in pieces {
                        self.start_heartbeat(piece, time * 2 / 3, false);
                    }
                }
                Err(batch) => {
                    self.note_held_up(&batch, true);
                    self.failed(&batch, failure);
                }
            },
            Err(failure) => self.failed(&batch, failure),
        }
    }

    fn note_held_up(&self, batch: &[Arc<WaiterSlot>], is_held_up: bool) {
        if let Some(slot) = batch.first() {
            self.held_up.note(slot.name(), is_held_up);
        }
    }

    /// Some waiters have no queue entry: makes them send an attempt. Those beside them in a document had no heartbeat:
    /// sends it again soon.
    async fn sort_out(&self, batch: Vec<Arc<WaiterSlot>>, reply: Renewed, time: Duration) {
        let entries = batch.iter().map(|slot| slot.entry()).collect();
        let look = FindEntries { entries };
        let policy = RetryPolicy::one_attempt(self.runner.clock().now(), time);
        let present: HashSet<_> = match retry::run(&self.runner, look, policy).await {
            Ok(answer) => answer.reply.into_iter().collect(),
            Err(failure) => return self.failed(&batch, failure),
        };
        let there = |slot: &Arc<WaiterSlot>| present.contains(&slot.entry());
        let matched = usize::try_from(reply.matched).unwrap_or_default();
        let told = after_look(batch, matched, |slot| slot.name(), there);
        told.gone.iter().for_each(|slot| slot.signal(Signal::Recheck));
        let life = self.waiters.life();
        told.confirmed.iter().for_each(|slot| slot.heartbeat_confirmed(reply.sent, life));
        if !told.again.is_empty() {
            self.heartbeats_soon(&told.again);
        }
    }

    /// Schedules another try soon. After a failover, the first of these keeps the queue in order.
    fn failed(&self, batch: &[Arc<WaiterSlot>], failure: Failure) {
        telemetry::heartbeat_failed(batch.len(), &Error::from(failure).to_string());
        self.heartbeats_soon(batch);
    }

    /// Sends the next heartbeats of these soon: at most four times as often as usual.
    fn heartbeats_soon(&self, batch: &[Arc<WaiterSlot>]) {
        let soon = self.runner.clock().now().after(self.waiters.life() / 12);
        batch.iter().for_each(|slot| slot.heartbeat_by(soon));
        self.waiters.look_again();
    }
}
