//! What every handle of one manager shares.

mod shutdown;
mod start;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongodb::Database;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::batch::Batcher;
use crate::batch::acquires::AcquireBatch;
use crate::batch::alone::Alone;
use crate::clock;
use crate::commands::failure::Failure;
use crate::commands::probe::{DryRun, IsHintUsed, Topology};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::hints::{ContendedNames, HeldUpNames, NewNames};
use crate::hold::renewer::{Number, Renewer};
use crate::hold::{Grant, Holding};
use crate::indexes;
use crate::options::{ManagerOptions, timing_error};
use crate::release::background::{BackgroundReleaser, GiveBack};
use crate::release::pending::PendingReleases;
use crate::release::{Ending, Released, Releaser};
use crate::retry::{self, RetryPolicy};
use crate::rules::ids::ManagerId;
use crate::rules::outcome::REFUSED;
use crate::rules::timing::Timing;
use crate::runner::{Pace, Runner};
use crate::wait::heartbeat;
use crate::wait::local_queue::LocalQueues;
use crate::wait::waiters::Waiters;
use crate::wait::watcher::Watcher;
pub use shutdown::ShutdownReport;
use start::find_server;

/// What every handle of one manager shares.
pub(crate) struct Engine {
    pub(crate) runner: Runner,
    pub(crate) options: ManagerOptions,
    pub(crate) timing: Arc<Timing>,
    pub(crate) topology: Topology,
    /// Fresh randomness of this manager's: its values begin with it.
    pub(crate) id: ManagerId,
    /// `label@host:pid`.
    pub(crate) owner: String,
    pub(crate) renewer: Renewer,
    pub(crate) background: BackgroundReleaser,
    /// Which dropped leases are being released.
    pub(crate) pending_releases: PendingReleases,
    pub(crate) events: Events,
    /// First attempts, of which many at once go in one command; and all others, which go alone.
    pub(crate) acquires: Batcher<AcquireBatch>,
    pub(crate) alone: Alone,
    /// Renewals that a caller asks for. They have bounds of their own.
    pub(crate) renewals: Alone,
    pub(crate) releaser: Releaser,
    /// Which documents are likely to be held up.
    pub(crate) held_up: HeldUpNames,
    pub(crate) new_names: NewNames,
    pub(crate) contended: ContendedNames,
    /// Who of this process waits for which lease, in order.
    pub(crate) local_queues: LocalQueues,
    /// The entries of this manager's in the queues.
    pub(crate) waiters: Waiters,
    /// The indexes were there when we last looked, and nothing has said otherwise since.
    indexes_are_there: AtomicBool,
    /// Cancelled when the manager takes no more.
    pub(crate) closing: CancellationToken,
    /// What a shutdown has ended, and has not released yet: the next call goes on where a dropped one has stopped.
    leaving: Mutex<Vec<Arc<Holding>>>,
    /// Ends the renewer's task.
    stop: CancellationToken,
    /// The same, with the last handle.
    _stop: DropGuard,
}

impl Engine {
    /// Checks the options, the server and the indexes, and starts the tasks.
    pub(crate) async fn start(database: Database, options: ManagerOptions) -> Result<Arc<Engine>> {
        let timing = Arc::new(options.check()?);
        let id = ManagerId::new(clock::random_hex::<12>()?);
        let runner = Runner::new(database, &options.collection, options.max_in_flight)?;
        let deadline = clock::now().after(options.build_deadline);
        let policy = RetryPolicy { attempt: timing.attempt_deadline, deadline };
        let topology = find_server(&runner, policy, options.build_deadline).await?;
        let may_insert = probe(&runner, &options, policy).await?;
        let stop = CancellationToken::new();
        let owner = clock::describe_process(&options.owner);
        let events = Events::new();
        let waiters = Waiters::new(options.waiter_ttl);
        let held_up = HeldUpNames::default();
        heartbeat::start(&runner, waiters.clone(), &held_up, stop.clone());
        if options.change_stream && topology.has_oplog {
            let watcher = Watcher {
                runner: runner.clone(),
                manager_id: id.clone(),
                waiters: waiters.clone(),
                events: events.clone(),
            };
            watcher.start(stop.clone());
        } else {
            waiters.nobody_tells();
        }
        let releaser = Releaser::new(&runner, options.tombstones, &held_up);
        let (pace, is_routed) = (Pace::default(), topology.is_router);
        let acquires = AcquireBatch { is_routed };
        Ok(Arc::new(Engine {
            acquires: Batcher::new(runner.clone(), acquires, pace.clone(), held_up.clone()),
            alone: Alone::new(runner.clone(), Some(pace), held_up.clone()),
            renewals: Alone::new(runner.clone(), None, held_up.clone()),
            contended: ContendedNames::default(),
            renewer: Renewer::start(runner.clone(), held_up.clone(), stop.clone()),
            background: BackgroundReleaser::start(&runner, releaser.clone()),
            releaser,
            held_up,
            new_names: NewNames::new(may_insert),
            events,
            local_queues: LocalQueues::default(),
            waiters,
            indexes_are_there: AtomicBool::new(true),
            closing: CancellationToken::new(),
            leaving: Mutex::default(),
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

    /// The limits of a command that is not waited for longer than two attempts.
    pub(crate) fn policy(&self) -> RetryPolicy {
        RetryPolicy::two_attempts(self.timing.attempt_deadline)
    }

    /// An error when the manager has been shut down.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.closing.is_cancelled() {
            true => Err(Error::ShutDown),
            false => Ok(()),
        }
    }

    /// An error when the manager has been shut down, or was built to look only.
    pub(crate) fn check_may_write(&self) -> Result<()> {
        if self.options.read_only {
            let reason = "this manager was built with `read_only(true)`";
            return Err(Error::invalid_option("read_only", reason));
        }
        self.check_open()
    }

    /// Makes sure that the indexes are there, where something has put that in doubt.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        if self.indexes_are_there.load(Ordering::Acquire) || self.options.assume_indexes {
            return Ok(());
        }
        indexes::verify(&self.runner, self.policy()).await?;
        self.indexes_are_there.store(true, Ordering::Release);
        Ok(())
    }

    /// A command was refused in a way that puts the indexes in doubt.
    pub(crate) fn doubt_indexes(&self) {
        self.indexes_are_there.store(false, Ordering::Release);
    }

    /// The timings for another ttl than the manager's.
    pub(crate) fn timing_for(&self, ttl: Duration) -> Result<Timing> {
        Timing::for_ttl(ttl, self.timing.max_clock_skew, self.options.attempt_deadline)
            .map_err(timing_error)
    }

    /// The same timings, shared where they are the manager's own.
    pub(crate) fn shared_timing(&self, timing: Timing) -> Arc<Timing> {
        if timing == *self.timing { Arc::clone(&self.timing) } else { Arc::new(timing) }
    }

    /// Takes a grant into care. Nothing when its validity has passed already, or the manager has been shut down: then
    /// it is no grant.
    pub(crate) fn hold(&self, grant: Grant) -> Option<(Number, Arc<Holding>)> {
        let holding = Arc::new(Holding::new(grant, self.events.clone()));
        if !holding.is_valid() {
            return None;
        }
        let number = self.renewer.insert(Arc::clone(&holding));
        // Only now: a shutdown that has not been noticed here will find it in care.
        if self.closing.is_cancelled() {
            self.renewer.remove(number);
            holding.end();
            return None;
        }
        Some((number, holding))
    }

    /// Ends a lease. `hold_at_least` counts from the grant.
    pub(crate) async fn release(
        &self,
        ending: Ending,
        hold_at_least: Option<Duration>,
    ) -> Result<Released> {
        let policy = RetryPolicy {
            attempt: self.timing.attempt_deadline,
            deadline: clock::now().after(self.options.release_deadline),
        };
        Ok(match hold_at_least {
            None => self.releaser.end(ending, policy).await?,
            Some(hold_at_least) => {
                self.releaser.end_later(ending.target, hold_at_least, policy).await?
            }
        })
    }

    /// Has a dropped lease given back in the background. Who acquires its name in this process waits for that.
    pub(crate) fn give_back(&self, what: GiveBack) {
        let pending = self.pending_releases.begin(&what.target.name);
        self.background.give_back(GiveBack { pending: Some(pending.into()), ..what });
    }

    /// `@host:pid`.
    pub(crate) fn process(&self) -> &str {
        &self.owner[self.options.owner.len()..]
    }
}

/// Checks what has to be there before anything is granted: the indexes, and a server that takes our commands. The
/// answer is whether names may be inserted without a look: where releases make tombstones, and the server goes by the
/// hint also where it has nothing to look for. Else such an insert might not notice that the index has gone.
async fn probe(runner: &Runner, options: &ManagerOptions, policy: RetryPolicy) -> Result<bool> {
    if !options.assume_indexes {
        match indexes::verify(runner, policy).await {
            // Who only looks can do without them.
            Err(Error::MissingPrivilege { .. }) if options.read_only => {}
            verified => verified?,
        }
    }
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

/// A server that refuses our commands as such is not one that we can work with.
fn refused_dry_run(failure: Failure) -> Error {
    const UNAUTHORIZED: i32 = 13;
    match failure.server_code() {
        Some(code) if code != UNAUTHORIZED && failure.outcome == REFUSED => {
            let reason = Error::from(failure);
            Error::unsupported(format!(
                "the server refuses the commands that leases need: {reason}"
            ))
        }
        Some(_) | None => failure.into(),
    }
}
