//! Sends the heartbeats of all waiters: one task per manager, one command for all names.
//!
//! The task waits for the clock only. The heartbeats of a blocked document go in their own command: so a transaction on
//! one lease document costs the other waiters at most one short command.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{FindEntries, Heartbeat, Matched};
use mongo_lease_core::rules::{
    Applied, HEARTBEATS_MAX, after_look, apart, heartbeat_again, heartbeat_slack, piece_time,
    pieces,
};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::failure::Failure;
use crate::hints::NameHint;
use crate::mistake::{Mistake, is_made};
use crate::retry::{self, RetryPolicy};
use crate::runner::Runner;
use crate::telemetry::{self, BlockedLog};
use crate::wait::waiters::{Signal, WaiterSlot, Waiters};

/// Starts the task. It ends when `stop` is cancelled.
pub(crate) fn start(
    runner: &Runner,
    waiters: Waiters,
    (blocked, blocked_log): (&NameHint, &BlockedLog),
    stop: CancellationToken,
) {
    let (blocked, blocked_log) = (blocked.clone(), blocked_log.clone());
    let heart = HeartbeatTask { runner: runner.clone(), waiters, blocked, blocked_log };
    runner.spawn_service(heart.work(stop));
}

#[derive(Clone)]
struct HeartbeatTask {
    runner: Runner,
    waiters: Waiters,
    blocked: NameHint,
    blocked_log: BlockedLog,
}

impl HeartbeatTask {
    async fn work(self, stop: CancellationToken) {
        loop {
            let (due, wake_at) = self.waiters.due(self.runner.clock().now());
            let (alone, together) =
                apart(due, |slot| slot.name(), |slot| self.blocked.has(slot.name()));
            let time = heartbeat_slack(self.waiters.waiter_ttl());
            for batch in together.chunks(HEARTBEATS_MAX) {
                self.start_heartbeat(batch.to_vec(), time, false);
            }
            for document in alone {
                self.start_heartbeat(document, time, true);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.waiters.sooner() => {}
                () = self.runner.clock().sleep_until(wake_at) => {}
            }
        }
    }

    fn start_heartbeat(&self, mut batch: Vec<Arc<WaiterSlot>>, time: Duration, is_blocked: bool) {
        if batch.len() > 1 && is_made(Mistake::EntrySkipped) {
            batch.pop();
        }
        self.runner.spawn(self.clone().send(batch, time, is_blocked));
    }

    async fn send(self, batch: Vec<Arc<WaiterSlot>>, time: Duration, is_blocked: bool) {
        let entries: Vec<_> = batch.iter().map(|slot| slot.entry()).collect();
        let documents: HashSet<&str> = batch.iter().map(|slot| slot.name()).collect();
        let asked = i64::try_from(documents.len()).unwrap_or(i64::MAX);
        let waiter_ttl = self.waiters.waiter_ttl();
        let command = Heartbeat { entries, waiter_ttl };
        let started = self.runner.clock().now();
        let policy = RetryPolicy::one_attempt(started, time);
        let applied = retry::run_batch(&self.runner, command, policy, is_blocked).await;
        // A heartbeat counts when it is applied.
        match applied.map(Applied::at_the_primary) {
            Ok(reply) if reply.matched == asked => {
                if is_blocked {
                    self.note_blocked(&batch, false);
                }
                batch.iter().for_each(|slot| slot.heartbeat_confirmed(reply.sent, waiter_ttl));
            }
            Ok(reply) => self.sort_out(batch, reply, time).await,
            Err(failure) if failure.is_blocked() => match pieces(batch, |slot| slot.name()) {
                Ok(pieces) => {
                    for piece in pieces {
                        self.start_heartbeat(piece, piece_time(time), false);
                    }
                }
                Err(batch) => {
                    self.note_blocked(&batch, true);
                    let waited = self.runner.clock().now().since(started);
                    batch.iter().take(1).for_each(|it| self.blocked_log.cut_off(it.name(), waited));
                    self.heartbeats_soon(&batch);
                }
            },
            Err(failure) => self.failed(&batch, failure),
        }
    }

    fn note_blocked(&self, batch: &[Arc<WaiterSlot>], is_blocked: bool) {
        if let Some(slot) = batch.first() {
            self.blocked.note(slot.name(), is_blocked);
            if !is_blocked {
                self.blocked_log.written(slot.name());
            }
        }
    }

    /// Some waiters have no queue entry: makes them send an attempt. Those beside them in a document had no heartbeat:
    /// sends it again soon.
    async fn sort_out(&self, batch: Vec<Arc<WaiterSlot>>, reply: Matched, time: Duration) {
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
        let waiter_ttl = self.waiters.waiter_ttl();
        told.confirmed.iter().for_each(|slot| slot.heartbeat_confirmed(reply.sent, waiter_ttl));
        if !told.again.is_empty() {
            self.heartbeats_soon(&told.again);
        }
    }

    /// Schedules another try soon. After a failover, the first of these keeps the queue in order.
    fn failed(&self, batch: &[Arc<WaiterSlot>], failure: Failure) {
        let name = batch.first().map_or("", |slot| slot.name());
        telemetry::heartbeat_failed(batch.len(), name, &Error::from(failure).to_string());
        self.heartbeats_soon(batch);
    }

    /// Sends the next heartbeats of these soon: at most four times as often as usual.
    fn heartbeats_soon(&self, batch: &[Arc<WaiterSlot>]) {
        let soon = self.runner.clock().now().after(heartbeat_again(self.waiters.waiter_ttl()));
        batch.iter().for_each(|slot| slot.heartbeat_by(soon));
        self.waiters.look_again();
    }
}
