//! Runs commands: each in its own task, with a deadline, within the slots.
//!
//! This module alone starts tasks. It sends every command, except those of a transaction, in tasks that own its
//! session, and fenced writes, in the caller's own future. Invariants:
//!
//! 1. A driver future that may write is never dropped: that would close its connection, and the write could still
//!    happen. The task that polls it goes on after the caller has stopped waiting.
//! 2. Each caller gets an answer by its deadline, whatever the database does.
//! 3. After [`Runner::close`] no new command is sent. [`Runner::idle`] returns when all sent ones have been answered.

mod attempt;
mod backend;
#[cfg(feature = "memory")]
mod memory;
mod pending;
mod polls;
mod send;
#[cfg(feature = "memory")]
mod simulated;
mod slots;
mod unknown;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongo_lease_core::commands::Command;
use mongo_lease_core::rules::{Advice, Instant, Lane, ManagerId, REFUSED, RETRY, Slots};
use mongodb::Database;
use mongodb::bson::Document;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Process};
use crate::error::Error;
use crate::failure::{Cause, Failure, NOT_SENT, UNANSWERED};
use crate::token::Token;

pub(crate) use attempt::{AttemptLimits, AttemptTime, Pace, PriorEffect};
pub(crate) use backend::{Backend, BackendCommand, EventStream, Heard};
pub(crate) use pending::{Pending, Stage};
pub(crate) use polls::PollsSince;
use polls::{Counted, Polls};
use send::{local_read, max_time_ms, send};
use slots::{Occupied, SlotQueue};
use unknown::UnknownCodes;

pub(crate) type AttemptResult<T> = Result<T, Failure>;

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

    /// Stops new acquires. Commands that keep or free a lease are still sent.
    pub(crate) fn close_acquires(&self) {
        self.shared.slots.close(&[Lane::Acquire, Lane::BlockedAcquire]);
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
    /// which it was sent, if it was.
    pub(crate) fn start<C: BackendCommand>(
        &self,
        command: C,
        limits: impl Into<AttemptLimits>,
        answered: impl FnOnce(&AttemptResult<C::Reply>, Option<Instant>) + Send + 'static,
    ) -> Pending<C::Reply> {
        let polls = self.polls_from_now();
        let (sender, stage, under_way) = Pending::pair();
        let (runner, limits) = (self.clone(), limits.into());
        self.spawn(async move {
            let result = runner.attempt(&command, limits, &stage).await;
            answered(&result, stage.sent_at());
            // If the caller has stopped waiting, the call of `answered` was sufficient.
            let _ = sender.send(result);
        });
        under_way.sent_by(polls)
    }

    /// Waits for a slot, and runs one attempt in it.
    async fn attempt<C: BackendCommand>(
        &self,
        command: &C,
        mut limits: AttemptLimits,
        stage: &Stage,
    ) -> AttemptResult<C::Reply> {
        let slot = self.slot(C::LANE, limits.is_blocked, limits.time.deadline).await?;
        let now = self.shared.clock.now();
        if !stage.send(now) {
            return Err(NOT_SENT);
        }
        limits.time = limits.time.over(now).into();
        slot.run(command, limits).await
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

    /// Sends the command. A server without majority reads gets a read that may do without them with level `local`.
    ///
    /// Such a read can show a write that a failover undoes. None of these reads makes a lease valid: they report, or
    /// end what this process believes in, or find out which documents need another command.
    async fn send_or_read_locally<C: Command>(
        &self,
        database: &Database,
        command: &C,
        document: Document,
        sent: Instant,
    ) -> AttemptResult<C::Reply> {
        let local = if command.needs_majority_read() { None } else { local_read(&document) };
        match local {
            Some(local) if self.has_no_majority_reads() => {
                send(database, command, local, sent).await
            }
            local => {
                let answer = send(database, command, document, sent).await;
                if !matches!(&answer, Err(failure) if failure.is_no_majority_read()) {
                    return answer;
                }
                self.shared.has_no_majority_reads.store(true, Ordering::Relaxed);
                match local {
                    Some(local) => send(database, command, local, sent).await,
                    None => answer,
                }
            }
        }
    }
}

/// The right to have one command in progress, from one after the other.
pub(crate) struct Slot {
    runner: Runner,
    _occupied: Occupied,
}

impl Slot {
    pub(crate) fn clock(&self) -> &Clock {
        &self.runner.shared.clock
    }

    /// Sends a query until it is answered, or its time is over.
    pub(crate) async fn run_until_answered<C: BackendCommand>(
        &self,
        query: &C,
        time: AttemptTime,
    ) -> AttemptResult<C::Reply> {
        let clock = &self.runner.shared.clock;
        let mut delays = clock.jittered(RETRY);
        loop {
            let answer = self.run(query, time.into()).await;
            let again_at = clock.now().after(delays.next().unwrap_or(RETRY.longest));
            match answer {
                Err(failure)
                    if failure.outcome.advice == Advice::Retry && again_at < time.deadline =>
                {
                    clock.sleep_until(again_at).await;
                }
                answer => return answer,
            }
        }
    }

    /// Sends one command in the caller's task, which must be one of the runner's, and waits for its answer however long
    /// the database takes. The slot is occupied until then: otherwise ever more commands could pile up.
    pub(crate) async fn run<C: BackendCommand>(
        &self,
        command: &C,
        limits: AttemptLimits,
    ) -> AttemptResult<C::Reply> {
        let AttemptLimits { time, pace, is_blocked } = limits;
        let shared = &self.runner.shared;
        // Whole, so that what is read back from the document equals what this process remembers. Rounded down, validity
        // counts from no later than the sending.
        let sent = shared.clock.now().whole_micros();
        let pace = pace.as_ref().or(shared.pace.as_ref());
        let at_most = pace.map_or(Duration::MAX, |pace| pace.bound(is_blocked));
        let max_time_ms = max_time_ms(time.over(sent).since(sent), at_most);
        let answer = match &shared.backend {
            Backend::Server(database) => {
                let mut document = command.build(&shared.collection, sent);
                document.insert("maxTimeMS", max_time_ms);
                self.runner.send_or_read_locally(database, command, document, sent).await
            }
            #[cfg(feature = "memory")]
            Backend::Memory(store) => {
                memory::attempt(store, &shared.collection, command, sent, max_time_ms).await
            }
        };
        if let Some(pace) = pace {
            pace.answered(shared.clock.now(), sent, &answer);
        }
        if let Err(failure) = &answer {
            shared.unknown_codes.note(shared.clock.now(), failure);
        }
        answer
    }
}
