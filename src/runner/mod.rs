//! Runs commands: each in its own task, with a deadline, within the slots.
//!
//! This module alone starts tasks. It sends every command, except those of a transaction, in tasks that own its
//! session, and fenced writes, in the caller's own future. Invariants:
//!
//! 1. A driver future that may write is never dropped: that would close its connection, and the write could still
//!    happen. The task that polls it goes on after the caller has stopped waiting.
//! 2. Each caller gets an answer by its deadline, whatever the database does.
//! 3. After [`Runner::close`] no new command is sent. [`Runner::idle`] returns when all sent ones have been answered.

#[cfg(test)]
mod tests;

mod attempt;
mod backend;
mod confirmer;
mod confirming;
#[cfg(feature = "memory")]
mod memory;
mod pending;
mod polls;
mod sending;
#[cfg(feature = "memory")]
mod simulated;
mod slots;
mod stage;
mod unknown;

use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::time::Duration;

use mongo_lease_core::commands::Unconfirmed;
use mongo_lease_core::rules::{Applied, Instant, Lane, ManagerId, REFUSED, Slots};
use mongodb::Database;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Process};
use crate::error::Error;
use crate::failure::{Cause, Failure, NOT_SENT, UNANSWERED, not_confirmed};
use crate::token::Token;

pub(crate) use attempt::{AttemptLimits, AttemptTime, Pace, PriorEffect};
pub(crate) use backend::{Backend, BackendCommand, EventStream, Heard};
use confirmer::Confirmer;
pub(crate) use pending::Pending;
pub(crate) use polls::PollsSince;
use polls::{Counted, Polls};
pub(crate) use sending::Slot;
use slots::SlotQueue;
pub(crate) use stage::Stage;
use unknown::UnknownCodes;

pub(crate) type AttemptResult<T> = Result<T, Failure>;

/// The result of a command that the primary has carried out, or why there is none.
pub(crate) type AppliedResult<T> = AttemptResult<Applied<T, Unconfirmed>>;

/// Runs commands. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Runner {
    shared: Arc<Inner>,
}

struct Inner {
    clock: Clock,
    /// The process that has made it.
    process: Process,
    backend: Backend,
    collection: String,
    runtime: tokio::runtime::Handle,
    polls: Polls,
    /// Commands, and tasks that wait for commands. Each ends by itself.
    work: TaskTracker,
    /// Tasks that go on until they are stopped.
    services: TaskTracker,
    slots: SlotQueue,
    confirmer: Confirmer,
    /// Cancelled when acquires are stopped.
    closed_acquires: CancellationToken,
    /// The default pace of attempts, if there are too few slots for lanes.
    pace: Option<Pace>,
    unknown_codes: UnknownCodes,
    /// The server has refused a majority read. It goes on doing so until it is started with other options.
    has_no_majority_reads: AtomicBool,
}

impl Runner {
    /// Creates a runner for at most `in_flight_max` concurrent commands.
    pub(crate) fn new(
        backend: Backend,
        collection: &str,
        in_flight_max: usize,
    ) -> Result<Runner, Error> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| Error::unsupported("this call needs a tokio runtime"))?;
        let slots = Slots::new(in_flight_max);
        let shared = Inner {
            clock: backend.clock(),
            process: Process::this(),
            backend,
            collection: collection.to_owned(),
            runtime,
            polls: Polls::default(),
            work: TaskTracker::new(),
            services: TaskTracker::new(),
            slots: SlotQueue::new(slots),
            confirmer: Confirmer::default(),
            closed_acquires: CancellationToken::new(),
            pace: slots.are_few().then(Pace::default),
            unknown_codes: UnknownCodes::default(),
            has_no_majority_reads: AtomicBool::new(false),
        };
        Ok(Runner { shared: Arc::new(shared) })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Whether the process that has made it is the parent of this one, which was forked since.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.shared.process != Process::this()
    }

    /// The database that the commands go to, if they go to a server.
    pub(crate) fn database(&self) -> Result<&Database, Error> {
        self.shared.backend.database()
    }

    pub(crate) fn database_name(&self) -> &str {
        self.shared.backend.name()
    }

    pub(crate) fn collection(&self) -> &str {
        &self.shared.collection
    }

    /// Whether the server has refused a majority read.
    pub(crate) fn has_no_majority_reads(&self) -> bool {
        self.shared.has_no_majority_reads.load(Ordering::Relaxed)
    }

    /// Starts a task that ends by itself.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_in(&self.shared.work, task);
    }

    /// Starts a task that goes on until it is stopped.
    pub(crate) fn spawn_service(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_in(&self.shared.services, task);
    }

    fn spawn_in(&self, tasks: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
        #[cfg(feature = "memory")]
        if let Some(process) = self.shared.backend.process() {
            tasks.spawn_on(process.run(Box::pin(task)), &self.shared.runtime);
            return;
        }
        let task = Counted { task, polls: self.shared.polls.clone() };
        tasks.spawn_on(task, &self.shared.runtime);
    }

    /// How often tasks are polled from now on.
    pub(crate) fn polls_from_now(&self) -> PollsSince {
        self.shared.polls.since_now()
    }

    /// Stops new acquires, and the waits of those that are applied: their grants are given back. Commands that keep or
    /// free a lease are still sent.
    pub(crate) fn close_acquires(&self) {
        self.shared.slots.close(&[Lane::Acquire, Lane::BlockedAcquire]);
        self.shared.confirmer.stop_measuring();
        self.shared.closed_acquires.cancel();
    }

    /// Completes when commands of this lane are stopped by [`Runner::close_acquires`].
    pub(crate) async fn closed_acquires(&self, lane: Lane) {
        match lane.is_acquire() {
            true => self.shared.closed_acquires.cancelled().await,
            false => std::future::pending().await,
        }
    }

    /// Stops all new commands.
    pub(crate) fn close(&self) {
        self.shared.slots.close(&Lane::ALL);
    }

    /// Waits until every command has been answered, or until `deadline`.
    pub(crate) async fn idle(&self, deadline: Instant) {
        // A closed tracker can be waited for; it still accepts new tasks.
        self.shared.work.close();
        let _ = self.shared.clock.before(deadline, self.shared.work.wait()).await;
    }

    /// Waits until every task has ended, services too, or until `deadline`.
    pub(crate) async fn ended(&self, deadline: Instant) {
        // A call that ends just then starts another task before this one is polled.
        while self.tasks() > 0 && self.shared.clock.now() < deadline {
            self.shared.services.close();
            let _ = self.shared.clock.before(deadline, self.shared.services.wait()).await;
            self.idle(deadline).await;
        }
    }

    pub(crate) fn tasks(&self) -> usize {
        self.shared.work.len() + self.shared.services.len()
    }

    /// Opens the stream of the promotions to this manager's calls, from `since` on, or from now on.
    pub(crate) async fn watch(
        &self,
        manager_id: &ManagerId,
        since: Option<Token>,
        await_time: Duration,
        deadline: Instant,
    ) -> AttemptResult<EventStream> {
        let opening =
            self.shared.backend.open_stream(&self.shared.collection, manager_id, since, await_time);
        let (sender, receiver) = oneshot::channel();
        self.spawn(async move {
            // If the caller has stopped waiting, the stream is closed by being dropped here.
            let _ = sender.send(opening.await);
        });
        match self.shared.clock.before(deadline, receiver).await {
            Some(Ok(opened)) => opened,
            Some(Err(_)) | None => Err(UNANSWERED),
        }
    }

    /// Starts one attempt in its own task. `answered` is called in any case, with its outcome and with the moment at
    /// which it was sent, if it was. A write that no majority has in time is confirmed by a read, while its caller
    /// waits, until the deadline.
    pub(crate) fn start<C: BackendCommand>(
        &self,
        command: C,
        limits: impl Into<AttemptLimits>,
        answered: impl FnOnce(&AttemptResult<C::Reply>, Option<Instant>) + Send + 'static,
    ) -> Pending<C::Reply> {
        let polls = self.polls_from_now();
        let (mut sender, stage, under_way) = Pending::pair();
        let (runner, limits) = (self.clone(), limits.into());
        let deadline = limits.time.deadline;
        self.spawn(async move {
            let result = match runner.attempt(&command, limits, &stage).await {
                Ok(Applied::Confirmed(reply)) => Ok(reply),
                Ok(Applied::Unconfirmed(reply, why)) => {
                    let sent = stage.note_applied();
                    let gone = not_confirmed(why.clone());
                    tokio::select! {
                        biased;
                        result = runner.confirmed(&command, reply, why, sent, deadline) => result,
                        // Its caller has gone: what it may have been granted is given back now.
                        () = sender.closed() => Err(gone),
                        () = runner.closed_acquires(C::LANE) => Err(gone),
                    }
                }
                Err(failure) => Err(failure),
            };
            answered(&result, stage.sent_at());
            // If the caller has stopped waiting, the call of `answered` was sufficient.
            let _ = sender.send(result);
        });
        under_way.sent_by(polls)
    }

    /// Starts one attempt in its own task, whose caller confirms what no majority has in time.
    pub(crate) fn start_applied<C: BackendCommand>(
        &self,
        command: C,
        limits: impl Into<AttemptLimits>,
    ) -> Pending<Applied<C::Reply, Unconfirmed>> {
        let polls = self.polls_from_now();
        let (sender, stage, under_way) = Pending::pair();
        let (runner, limits) = (self.clone(), limits.into());
        self.spawn(async move {
            // The caller may have stopped waiting.
            let _ = sender.send(runner.attempt(&command, limits, &stage).await);
        });
        under_way.sent_by(polls)
    }

    /// Waits for a slot, and runs one attempt in it.
    async fn attempt<C: BackendCommand>(
        &self,
        command: &C,
        mut limits: AttemptLimits,
        stage: &Stage,
    ) -> AppliedResult<C::Reply> {
        let slot = self.slot(C::LANE, limits.is_blocked, limits.time.deadline).await?;
        let now = self.shared.clock.now();
        if !stage.send(now) {
            return Err(NOT_SENT);
        }
        limits.time = limits.time.over(now).into();
        slot.apply(command, limits).await
    }

    /// Waits for a slot for commands of this lane, until `deadline`.
    pub(crate) async fn slot(
        &self,
        lane: Lane,
        is_blocked: bool,
        deadline: Instant,
    ) -> AttemptResult<Slot> {
        if self.is_of_parent() {
            const FORKED: &str =
                "this process was forked after the manager was built: build another one here";
            let cause = Cause::Unsupported(FORKED.to_owned());
            return Err(Failure { outcome: REFUSED, cause });
        }
        let lane = if is_blocked { lane.blocked() } else { lane };
        match self.shared.clock.before(deadline, self.shared.slots.slot(lane)).await {
            Some(Some(occupied)) => Ok(Slot { runner: self.clone(), _occupied: occupied }),
            Some(None) => Err(Failure { outcome: REFUSED, cause: Cause::ShutDown }),
            None => Err(NOT_SENT),
        }
    }

    pub(crate) fn free_slot(&self, lane: Lane) -> Option<Slot> {
        if self.is_of_parent() {
            return None;
        }
        let occupied = self.shared.slots.free_slot(lane)?;
        Some(Slot { runner: self.clone(), _occupied: occupied })
    }
}
