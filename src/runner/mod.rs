//! Runs commands: each in a task of its own, with a deadline, in a bounded number, and again where that is safe.
//!
//! The only place that starts tasks, and the only one that talks to the database. Invariants:
//!
//! 1. A future of the driver's is never dropped: that would close its connection, and the write would happen all the
//!    same. The task that polls it goes on when nobody waits any more.
//! 2. Whoever waits is answered by its deadline, whatever the database does.
//! 3. The outcome of a command is "it happened", "it did not", or "nobody knows", and these are never mixed up.
//! 4. After [`Runner::close`] nothing new goes out, and [`Runner::idle`] ends when all that went has been answered.

mod attempt;
mod classify;
mod pace;
mod slots;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mongodb::Database;
use mongodb::bson::{Document, Timestamp};
use mongodb::change_stream::ChangeStream;
use mongodb::options::{
    ChangeStreamOptions, ReadConcern, ReadPreference, RunCommandOptions, SelectionCriteria,
};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::commands::Command;
use crate::commands::failure::{Cause, Failure, decode_failure, write_concern_error};
use crate::error::Error;
use crate::rules::outcome::{MAYBE_APPLIED, NOT_APPLIED, REFUSED};
use crate::rules::slots::{Lane, Slots};
use crate::rules::time::{Instant, millis_up};
use crate::rules::token::Token;

pub(crate) use attempt::{AttemptLimits, Earlier};
pub(crate) use classify::driver_failure;
pub(crate) use pace::Pace;
use slots::SlotQueue;

/// What an attempt came to.
pub(crate) type AttemptResult<T> = Result<T, Failure>;

/// An attempt that is under way, alone or with others: its answer, when it comes. It goes on when this is dropped.
pub(crate) struct Pending<T>(oneshot::Receiver<AttemptResult<T>>);

impl<T> Pending<T> {
    /// One that is answered through `sender`.
    pub(crate) fn pair() -> (oneshot::Sender<AttemptResult<T>>, Pending<T>) {
        let (sender, receiver) = oneshot::channel();
        (sender, Pending(receiver))
    }
}

impl<T> Future for Pending<T> {
    type Output = AttemptResult<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AttemptResult<T>> {
        // The task always sends, unless the runtime ends under it.
        let ended = Failure { outcome: MAYBE_APPLIED, cause: Cause::ShutDown };
        Pin::new(&mut self.0).poll(context).map(|answered| answered.unwrap_or(Err(ended)))
    }
}

/// Runs commands. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Runner {
    shared: Arc<Shared>,
}

struct Shared {
    database: Database,
    collection: String,
    runtime: tokio::runtime::Handle,
    /// Commands, and what waits for them. Each ends by itself.
    work: TaskTracker,
    /// Tasks that go on until they are stopped.
    services: TaskTracker,
    slots: SlotQueue,
    /// For attempts without a pace of their own, where there are too few slots for lanes.
    pace: Option<Pace>,
}

impl Runner {
    /// A runner for at most `in_flight_max` commands at once.
    pub(crate) fn new(
        database: Database,
        collection: &str,
        in_flight_max: usize,
    ) -> Result<Runner, Error> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| Error::unsupported("this call needs a tokio runtime"))?;
        let slots = Slots::new(in_flight_max);
        Ok(Runner {
            shared: Arc::new(Shared {
                database,
                collection: collection.to_owned(),
                runtime,
                work: TaskTracker::new(),
                services: TaskTracker::new(),
                slots: SlotQueue::new(slots),
                pace: slots.are_few().then(Pace::default),
            }),
        })
    }

    /// The database whose commands these are.
    pub(crate) fn database(&self) -> &Database {
        &self.shared.database
    }

    /// The collection of the leases.
    pub(crate) fn collection(&self) -> &str {
        &self.shared.collection
    }

    /// Starts a task that ends by itself.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.work.spawn_on(task, &self.shared.runtime);
    }

    /// Starts a task that goes on until it is stopped.
    pub(crate) fn spawn_service(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.services.spawn_on(task, &self.shared.runtime);
    }

    /// Lets nobody ask any more; what keeps or frees a lease still goes out.
    pub(crate) fn close_asking(&self) {
        self.shared.slots.close(&[Lane::Acquire, Lane::HeldUpAcquire]);
    }

    /// Lets nothing new go out.
    pub(crate) fn close(&self) {
        self.shared.slots.close(&Lane::ALL);
    }

    /// Waits until every command has been answered, or `deadline` comes.
    pub(crate) async fn idle(&self, deadline: Instant) {
        // For the tracker, closed means that somebody waits for the last task; it still takes new ones.
        self.shared.work.close();
        let _ = clock::before(deadline, self.shared.work.wait()).await;
    }

    /// Waits until every service has ended, or `deadline` comes.
    pub(crate) async fn services_ended(&self, deadline: Instant) {
        self.shared.services.close();
        let _ = clock::before(deadline, self.shared.services.wait()).await;
    }

    /// How many tasks there are.
    pub(crate) fn tasks(&self) -> usize {
        self.shared.work.len() + self.shared.services.len()
    }

    /// Opens a change stream of a collection, from `since` on or from now on. It reads from the primary, what a
    /// majority has.
    pub(crate) async fn watch(
        &self,
        pipeline: Vec<Document>,
        since: Option<Token>,
        await_time: Duration,
        deadline: Instant,
    ) -> AttemptResult<ChangeStream<Document>> {
        let options = ChangeStreamOptions::builder()
            .start_at_operation_time(since.map(Timestamp::from))
            .max_await_time(await_time)
            .read_concern(ReadConcern::majority())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let collection = self.shared.database.collection::<Document>(&self.shared.collection);
        let (sender, receiver) = oneshot::channel();
        self.spawn(async move {
            let opened = collection.watch().pipeline(pipeline).with_options(options).await;
            let opened = opened.map(ChangeStream::with_type).map_err(driver_failure);
            // A stream for which nobody waits any more is closed by being dropped.
            let _ = sender.send(opened);
        });
        let unanswered = Err(Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline });
        match clock::before(deadline, receiver).await {
            Some(Ok(opened)) => opened,
            Some(Err(_)) | None => unanswered,
        }
    }

    /// Starts one attempt, in a task of its own. `answered` is told of its outcome in any case.
    pub(crate) fn start<C: Command>(
        &self,
        command: C,
        limits: impl Into<AttemptLimits>,
        answered: impl FnOnce(&AttemptResult<C::Reply>) + Send + 'static,
    ) -> Pending<C::Reply> {
        let (sender, under_way) = Pending::pair();
        let (runner, limits) = (self.clone(), limits.into());
        self.spawn(async move {
            let result = runner.attempt(&command, limits).await;
            answered(&result);
            // When nobody waits any more, `answered` was all that had to hear of it.
            let _ = sender.send(result);
        });
        under_way
    }

    /// One attempt, in the caller's own task: that must be one of the runner's.
    ///
    /// It keeps its slot until the database has answered, however long that takes: commands that hang must not be
    /// followed by ever more of them.
    pub(crate) async fn attempt<C: Command>(
        &self,
        command: &C,
        limits: impl Into<AttemptLimits>,
    ) -> AttemptResult<C::Reply> {
        let AttemptLimits { deadline, pace, is_held_up } = limits.into();
        let lane = command.lane();
        let lane = if is_held_up { lane.held_up() } else { lane };
        let _slot = match clock::before(deadline, self.shared.slots.slot(lane)).await {
            Some(Ok(slot)) => slot,
            Some(Err(_closed)) => return Err(Failure { outcome: REFUSED, cause: Cause::ShutDown }),
            None => return Err(NO_ANSWER),
        };
        let sent = clock::now();
        let mut document = command.build(&self.shared.collection, sent);
        let pace = pace.as_ref().or(self.shared.pace.as_ref());
        let at_most = pace.map_or(Duration::MAX, |pace| pace.bound(is_held_up));
        document.insert("maxTimeMS", max_time_ms(deadline.since(sent), at_most));
        let answer = self.send(command, document, sent).await;
        if let Some(pace) = pace {
            pace.answered(sent, &answer);
        }
        answer
    }

    async fn send<C: Command>(
        &self,
        command: &C,
        document: Document,
        sent: Instant,
    ) -> AttemptResult<C::Reply> {
        // A read must not go to a secondary, whatever the client prefers.
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        let options = RunCommandOptions::builder().selection_criteria(primary).build();
        let running = self.shared.database.run_command(document).with_options(options);
        let reply = running.await.map_err(driver_failure)?;
        if let Some(message) = write_concern_error(&reply) {
            return Err(Failure { outcome: MAYBE_APPLIED, cause: Cause::WriteConcern(message) });
        }
        command.decode(&reply, sent).map_err(decode_failure)
    }
}

/// The server takes a 32-bit number.
const MAX_TIME_MS_MAX: i64 = i32::MAX as i64;

/// For how long the server may try, if we wait for so long. It gives up before we do, so that we hear that it did: it
/// tells a document that somebody's transaction holds from a server that does not answer.
fn max_time_ms(left: Duration, at_most: Duration) -> i64 {
    const AHEAD_MAX: Duration = Duration::from_millis(250);
    let left = left - (left / 8).min(AHEAD_MAX);
    millis_up(left.min(at_most)).clamp(1, MAX_TIME_MS_MAX)
}

/// Nothing was sent, for lack of time.
pub(crate) const NO_ANSWER: Failure = Failure { outcome: NOT_APPLIED, cause: Cause::Deadline };
