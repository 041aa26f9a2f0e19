//! Releases in the background: grants whose caller has gone, and dropped leases.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease_core::commands::ReleaseTarget;
use mongo_lease_core::rules::{ATTEMPT_TIMEOUT_DEFAULT, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Ending, ReleaseHint, Released, Releaser};
use crate::clock::Clock;
use crate::error::Error;
use crate::failure::Failure;
use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};
use crate::release::pending::PendingRelease;
use crate::retry::RetryPolicy;
use crate::runner::Runner;
use crate::telemetry;

/// The maximum number of leases in one background release.
const BATCH_MAX: usize = 1_000;
/// How often a shutdown checks whether all remaining leases are blocked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const BUSY: &str =
    "an open transaction blocks writes to its document, and the manager is being shut down";

/// A lease or grant to be released.
#[derive(Clone)]
pub(crate) struct GiveBack {
    pub(crate) target: ReleaseTarget,
    /// When the lease will have expired by itself: then nothing remains to be done.
    pub(crate) until: Instant,
    /// The minimum hold time, counted from the grant; `None` when it has passed.
    pub(crate) hold_at_least: Option<Duration>,
    /// The state in which the release is likely to find the lease.
    pub(crate) hint: ReleaseHint,
    /// Kept until the release has ended: an acquire of the same name waits for it.
    pub(crate) pending: Option<Arc<PendingRelease>>,
}

/// The handle to the background task. It works anywhere, also outside a runtime, and never blocks.
#[derive(Clone)]
pub(crate) struct BackgroundReleaser {
    report: Report,
    sender: mpsc::UnboundedSender<GiveBack>,
    stop: CancellationToken,
    give_up: CancellationToken,
    pub(super) clock: Clock,
}

/// The dropped leases that were released, or were not, since a shutdown began; `None` before one.
type Report = Arc<Lock<Option<BackgroundReport>>>;

/// See [`BackgroundReleaser::report`].
#[derive(Debug, Default)]
pub(crate) struct BackgroundReport {
    /// How many were released.
    pub(crate) released: usize,
    /// The names of those that were not.
    pub(crate) left: Vec<String>,
}

#[derive(Clone)]
struct Work {
    report: Report,
    runner: Runner,
    releaser: Releaser,
    give_up: CancellationToken,
}

impl BackgroundReleaser {
    /// Starts the task. It ends once all handles are dropped or it is stopped, and has then started every release.
    pub(crate) fn start(runner: &Runner, releaser: Releaser) -> BackgroundReleaser {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (stop, give_up) = (CancellationToken::new(), CancellationToken::new());
        let report = Report::default();
        let work = Work {
            report: Arc::clone(&report),
            runner: runner.clone(),
            releaser,
            give_up: give_up.clone(),
        };
        runner.spawn_service(work.run(receiver, stop.clone()));
        BackgroundReleaser { report, sender, stop, give_up, clock: runner.clock().clone() }
    }

    /// Writes down what becomes of dropped leases from now on.
    pub(crate) fn begin_report(&self) {
        self.report.lock().get_or_insert_default();
    }

    /// Returns what has become of them since, or since the last call.
    pub(crate) fn report(&self) -> BackgroundReport {
        self.report.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Lets the task end after it has started all releases queued so far.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Leaves the leases that a transaction blocks to expire.
    pub(crate) fn give_up_blocked(&self) {
        self.give_up.cancel();
    }

    /// Queues a lease or grant for release.
    pub(crate) fn give_back(&self, what: GiveBack) {
        if is_made(Mistake::DroppedKept) {
            return;
        }
        // If the task has ended, so has the runtime, and the lease expires.
        let _ = self.sender.send(what);
    }
}

impl Work {
    async fn run(self, mut receiver: mpsc::UnboundedReceiver<GiveBack>, stop: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = receiver.recv_many(&mut batch, BATCH_MAX) => received,
                () = stop.cancelled(), if !receiver.is_closed() => {
                    receiver.close();
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            let (later, now): (Vec<_>, Vec<_>) =
                batch.drain(..).partition(|what| what.hold_at_least.is_some());
            if !now.is_empty() {
                self.runner.spawn(self.clone().give_back(now));
            }
            for what in later {
                self.runner.spawn(self.clone().release_later(what));
            }
        }
    }

    async fn give_back(self, mut batch: Vec<GiveBack>) {
        let clock = self.runner.clock();
        let mut left: Vec<_> = batch
            .iter_mut()
            .map(|what| Some((what.target.name.clone(), what.pending.take())))
            .collect();
        let signals: Vec<_> = left
            .iter()
            .map(|left| left.as_ref().and_then(|(_, pending)| Some(pending.as_ref()?.signal())))
            .collect();
        let endings = batch.into_iter().zip(signals).map(|(what, applied)| {
            let policy = policy(clock.now(), what.until);
            let GiveBack { target, hint, .. } = what;
            (Ending { target, hint, was_valid: false, applied }, policy)
        });
        let mut ended = self.releaser.end_all(endings.collect());
        let mut failed: (usize, Option<Failure>) = (0, None);
        loop {
            let is_over = || left.iter().flatten().all(|(name, _)| self.releaser.is_blocked(name));
            let next = tokio::select! {
                biased;
                next = ended.next() => next,
                () = self.blocked_for(is_over) => {
                    failed.0 += left.iter().flatten().count();
                    break;
                }
            };
            let Some((place, result)) = next else {
                break;
            };
            self.note(left[place].take(), result.as_ref().ok().copied());
            if let Err(failure) = result {
                failed = (failed.0 + 1, Some(failure));
            }
        }
        left.into_iter().for_each(|left| self.note(left, None));
        if failed.0 > 0 {
            let reason = failed.1.map(|failure| Error::from(failure).to_string());
            telemetry::not_given_back(failed.0, reason.as_deref().unwrap_or(BUSY));
        }
    }

    /// Writes down what became of a lease. A grant that no lease had is not pending.
    fn note(
        &self,
        dropped: Option<(String, Option<Arc<PendingRelease>>)>,
        released: Option<Released>,
    ) {
        let Some((name, Some(pending))) = dropped else { return };
        if pending.is_reported
            && let Some(report) = self.report.lock().as_mut()
        {
            match released {
                // It is not held any more, whoever has ended it.
                Some(Released::Released | Released::Unknown) => report.released += 1,
                // Also of a damaged document, which nothing is written to.
                Some(Released::NotHeld) => {}
                None => report.left.push(name),
            }
        }
    }

    async fn release_later(self, what: GiveBack) {
        let name = what.target.name.clone();
        let hold_at_least = what.hold_at_least.unwrap_or_default();
        let policy = policy(self.runner.clock().now(), what.until);
        let later = self.releaser.end_later(what.target, false, hold_at_least, policy);
        let result = tokio::select! {
            biased;
            result = later => result.map_err(|failure| Error::from(failure).to_string()),
            () = self.blocked_for(|| self.releaser.is_blocked(&name)) => Err(BUSY.to_owned()),
        };
        self.note(Some((name, what.pending)), result.as_ref().ok().copied());
        if let Err(reason) = result {
            telemetry::not_given_back(1, &reason);
        }
    }

    /// Returns after `give_up` is cancelled and once only blocked leases remain.
    async fn blocked_for(&self, is_over: impl Fn() -> bool) {
        self.give_up.cancelled().await;
        // No notification exists for a blocked document: each attempt finds it out again.
        while !is_over() {
            self.runner.clock().sleep(LOOK_EVERY).await;
        }
    }
}

fn policy(now: Instant, until: Instant) -> RetryPolicy {
    // A lease that has expired by our clock still gets one attempt: the server's clock may differ.
    let deadline = until.max(now.after(ATTEMPT_TIMEOUT_DEFAULT));
    RetryPolicy { attempt_timeout: ATTEMPT_TIMEOUT_DEFAULT, deadline }
}
