//! The engine: state and tasks that all handles of one manager share.

mod shutdown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongo_lease_core::commands::{DryRun, Hello, IsHintUsed, Topology};
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{ManagerId, REFUSED, Timing};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::batch::Batcher;
use crate::batch::acquires::AcquireBatch;
use crate::batch::single::SingleSender;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::failure::{Cause, Failure};
use crate::hints::Hints;
use crate::hold::renewer::Renewer;
use crate::hold::{AgendaKey, Holding};
use crate::indexes;
use crate::lock::Lock;
use crate::options::{ManagerOptions, timing_error};
use crate::release::Releaser;
use crate::release::background::{BackgroundReleaser, GiveBack};
use crate::release::pending::PendingReleases;
use crate::retry::{self, RetryPolicy};
use crate::runner::{Backend, Pace, Runner};
use crate::telemetry::{self, BlockedLog, CallSpan, Events, Operation, Polling};
use crate::token::Token;
use crate::wait::heartbeat;
use crate::wait::local_queue::LocalQueues;
use crate::wait::waiters::Waiters;
use crate::wait::watcher::Watcher;
pub use shutdown::ShutdownReport;

/// State and tasks that all handles of one manager share.
pub(crate) struct Engine {
    pub(crate) runner: Runner,
    pub(crate) options: ManagerOptions,
    pub(crate) timing: Arc<Timing>,
    pub(crate) topology: Topology,
    /// Random and unique to this manager: its values begin with it. It begins as that of every manager of this process.
    pub(crate) id: ManagerId,
    /// `label@host:pid`.
    pub(crate) owner: Arc<str>,
    pub(crate) renewer: Renewer,
    pub(crate) background: BackgroundReleaser,
    /// The names whose dropped leases are being released.
    pub(crate) pending_releases: PendingReleases,
    pub(crate) events: Events,
    /// Sends fast-path attempts, in batches; `alone` sends full attempts, one per command.
    pub(crate) acquires: Batcher<AcquireBatch>,
    pub(crate) alone: SingleSender,
    /// Sends the renewals that a caller requests. They have limits of their own.
    pub(crate) renewals: SingleSender,
    pub(crate) releaser: Releaser,
    pub(crate) hints: Hints,
    /// The local queues: the calls of this manager that wait for each lease, in order.
    pub(crate) local_queues: LocalQueues,
    pub(crate) waiters: Waiters,
    /// The indexes existed at the last check, and nothing has put that in doubt since.
    indexes_are_there: AtomicBool,
    /// Cancelled when the manager accepts no more calls.
    pub(crate) closing: CancellationToken,
    /// Cancelled with `closing`, and when the runtime of the manager's tasks is gone.
    pub(crate) ended: CancellationToken,
    /// Leases that a shutdown has ended but not yet released. If a shutdown call is dropped, the next one continues
    /// with them. In the order of their grants: to delete documents in the order of their insertion costs the server
    /// half the time.
    leaving: Lock<BTreeMap<AgendaKey, Arc<Holding>>>,
    /// Ends the tasks: renewals, heartbeats, the change stream.
    stop: CancellationToken,
    /// Ends the tasks when the last handle is dropped.
    _stop: DropGuard,
}

/// How long `build` waits for a server before the log says so.
const SILENCE: Duration = Duration::from_secs(1);

impl Engine {
    /// Checks the options, the server and the indexes, and starts the tasks.
    pub(crate) async fn start(backend: Backend, options: ManagerOptions) -> Result<Arc<Engine>> {
        let timing = Arc::new(options.check()?);
        telemetry::register();
        let runner =
            Runner::new(backend.clone(), &options.collection, options.tuning.max_in_flight)?;
        let id = ManagerId::new(runner.clock().manager_randomness()?);
        let policy = || RetryPolicy {
            attempt_timeout: timing.attempt_timeout,
            deadline: runner.clock().now().after(options.build_timeout),
        };
        let mut within = policy();
        let topology = first_answer(&runner, within, options.build_timeout).await?;
        if options.ensure_indexes {
            indexes::ensure(&backend, &options.collection).await?;
            within = policy();
        }
        let may_insert = probe(&runner, &options, within).await?;
        let (stop, closing) = (CancellationToken::new(), CancellationToken::new());
        let owner = runner.clock().describe_process(&options.owner).into();
        let events = Events::new();
        let waiters = Waiters::new(options.tuning.waiter_ttl);
        let ended = closing.child_token();
        let local_queues = LocalQueues::start(&runner, ended.clone(), stop.clone());
        let hints = Hints::new(may_insert, runner.clock());
        let blocked = hints.blocked.clone();
        let blocked_log = BlockedLog::default();
        let writes = (&blocked, &blocked_log);
        heartbeat::start(&runner, waiters.clone(), writes, stop.clone());
        if options.tuning.change_stream && topology.has_oplog {
            let watcher = Watcher {
                runner: runner.clone(),
                manager_id: id.clone(),
                waiters: waiters.clone(),
                events: events.clone(),
                polling: Polling::default(),
            };
            watcher.start(stop.clone());
        } else {
            waiters.disable_stream();
        }
        let releaser = Releaser::new(&runner, options.tombstones, &blocked);
        let (pace, is_routed) = (Pace::default(), topology.is_router);
        let acquires = AcquireBatch { is_routed };
        Ok(Arc::new(Engine {
            acquires: Batcher::new(runner.clone(), acquires, pace.clone(), blocked.clone()),
            alone: SingleSender::new(runner.clone(), Some(pace), blocked.clone()),
            renewals: SingleSender::new(runner.clone(), None, blocked.clone()),
            hints,
            renewer: Renewer::start(&runner, writes, &events, &closing, stop.clone()),
            background: BackgroundReleaser::start(&runner, releaser.clone()),
            releaser,
            events,
            local_queues,
            waiters,
            indexes_are_there: AtomicBool::new(true),
            closing,
            ended,
            leaving: Lock::default(),
            _stop: stop.clone().drop_guard(),
            stop,
            runner,
            options,
            timing,
            topology,
            id,
            owner,
            pending_releases: PendingReleases::default(),
        }))
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.runner.clock()
    }

    /// The limits of a command for which no call waits longer than two attempts.
    pub(crate) fn policy(&self) -> RetryPolicy {
        let attempt_timeout = self.timing.attempt_timeout;
        RetryPolicy { attempt_timeout, deadline: self.clock().now().after(attempt_timeout * 2) }
    }

    /// The span of a call for the lease `name`, with its token if that is known already.
    pub(crate) fn span(&self, operation: Operation, name: &str, token: Option<Token>) -> CallSpan {
        let namespace = (self.runner.database_name(), self.runner.collection());
        CallSpan::new(operation, namespace, name, token)
    }

    /// Returns an error when the manager has been shut down, or its runtime is gone.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.ended.is_cancelled() { Err(self.why_ended()) } else { Ok(()) }
    }

    /// Why `ended` is cancelled.
    pub(crate) fn why_ended(&self) -> Error {
        if self.closing.is_cancelled() { Error::ShutDown } else { Error::runtime_gone() }
    }

    /// Returns an error when the manager has been shut down, or was built with `read_only(true)`.
    pub(crate) fn check_may_write(&self) -> Result<()> {
        if self.options.read_only {
            let reason = "this manager was built with `read_only(true)`";
            return Err(Error::invalid_option("read_only", reason));
        }
        self.check_open()
    }

    /// Returns an error where several cannot hold one lease at once.
    pub(crate) fn check_shares(&self) -> Result<()> {
        let missing = "permits and shared leases need a replica set: the tokens of their holders \
                       are times of its oplog";
        if self.topology.has_oplog { Ok(()) } else { Err(Error::unsupported(missing)) }
    }

    /// Checks that the indexes exist, if a failure has put that in doubt.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        if self.indexes_are_there.load(Ordering::Acquire) || self.options.assume_indexes {
            return Ok(());
        }
        // Boxed, because each acquire checks, and hardly ever one verifies.
        Box::pin(indexes::verify(&self.runner, self.policy())).await?;
        self.indexes_are_there.store(true, Ordering::Release);
        Ok(())
    }

    /// Notes that a failure has put the indexes in doubt.
    pub(crate) fn doubt_indexes(&self) {
        self.indexes_are_there.store(false, Ordering::Release);
    }

    /// The timings for this ttl; the manager's own are shared. An attempt timeout that is too long for it is
    /// shortened.
    pub(crate) fn timing_for(&self, ttl: Duration) -> Result<Arc<Timing>> {
        let asked = self.options.tuning.attempt_timeout.map(|asked| asked.min(ttl / 2));
        let timing = Timing::new(ttl, self.timing.max_clock_skew, asked).map_err(timing_error)?;
        Ok(if timing == *self.timing { Arc::clone(&self.timing) } else { Arc::new(timing) })
    }

    /// How long a release may take.
    pub(crate) fn release_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempt_timeout: self.timing.attempt_timeout,
            deadline: self.clock().now().after(self.options.release_timeout),
        }
    }

    /// Releases a dropped lease in the background. A call of this process for the same name waits for that.
    /// A shutdown reports it if `is_reported`.
    pub(crate) fn give_back(&self, what: GiveBack, is_reported: bool) {
        // A copy in a forked child: the lease is its parent's.
        if self.runner.is_of_parent() {
            return;
        }
        let pending = self.pending_releases.begin(&what.target.name, is_reported);
        self.background.give_back(GiveBack { pending: Some(pending.into()), ..what });
    }

    /// Makes a lease ready for users.
    pub(crate) fn recognize(&self, info: &mut LeaseInfo) {
        info.recognize(&self.id);
        // A refusal shows no holder of a lease that several hold: what this manager holds, it knows by itself.
        if info.shared && info.is_held() && info.holders.is_empty() {
            info.held_here |= self.renewer.holds(&info.name);
        }
        // The managers of a forked child are those of its parent.
        if self.runner.is_of_parent() {
            info.held_here = false;
            info.holders.iter_mut().for_each(|holder| holder.held_here = false);
        }
    }
}

/// Waits for a server. If that takes long, the log says so.
async fn first_answer(
    runner: &Runner,
    policy: RetryPolicy,
    build_timeout: Duration,
) -> Result<Topology> {
    let mut hello = pin!(retry::run_unless(runner, Hello, policy, Failure::is_out_of_reach));
    let soon = runner.clock().now().after(SILENCE);
    let answer = match runner.clock().before(soon, hello.as_mut()).await {
        Some(answer) => answer,
        None => {
            telemetry::no_server_yet(runner.database_name(), build_timeout);
            hello.await
        }
    };
    answer.map(|answer| answer.reply).map_err(|failure| no_server(failure, build_timeout))
}

/// The error when no `hello` is answered. The command ends with the first attempt for which the driver finds no server:
/// the client's options say how long that takes, and the error says why.
fn no_server(mut failure: Failure, build_timeout: Duration) -> Error {
    // A `hello` writes nothing, even if an attempt of it is still under way.
    failure.outcome.maybe_applied = false;
    if failure.is_out_of_reach() {
        failure.outcome = REFUSED;
    }
    if !matches!(failure.cause, Cause::Deadline | Cause::NotSent | Cause::NotDriven) {
        return failure.into();
    }
    // A deadline that passed says nothing except how long it was.
    let waited = format!("within {build_timeout:?} (`build_timeout`)");
    Error::Unknown { reason: format!("the database did not answer {waited}"), source: None }
}

/// Checks the prerequisites of a grant: the indexes, the format of the documents, and a server that supports our
/// commands. Returns whether names may be inserted blindly: if releases make tombstones, and the server checks the hint
/// even for a filter that can match nothing. On other servers such an insert might not notice a missing index.
async fn probe(runner: &Runner, options: &ManagerOptions, policy: RetryPolicy) -> Result<bool> {
    if !options.assume_indexes {
        match indexes::verify(runner, policy).await {
            // A read-only manager can do without the indexes.
            Err(Error::MissingPrivilege { .. }) if options.read_only => {}
            verified => verified?,
        }
    }
    indexes::check_format(runner, policy).await?;
    if options.read_only {
        return Ok(false);
    }
    retry::run(runner, DryRun, policy).await.map_err(refused_dry_run)?;
    if !options.tombstones {
        return Ok(false);
    }
    // If `explain` fails, blind inserts stay off.
    Ok(retry::run(runner, IsHintUsed, policy).await.is_ok_and(|answer| answer.reply))
}

/// The error when the server refuses the form of our commands: it is not supported.
fn refused_dry_run(failure: Failure) -> Error {
    const UNAUTHORIZED: i32 = 13;
    match failure.server_code() {
        Some(code) if code != UNAUTHORIZED && failure.outcome == REFUSED => {
            let reason = Error::from(failure);
            let missing = format!("the server refuses the commands that leases need: {reason}");
            Error::Unsupported { missing }
        }
        Some(_) | None => failure.into(),
    }
}
