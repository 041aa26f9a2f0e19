//! Gives back what nobody took: grants whose caller has gone, and leases that were dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::release::{ReleaseLater, Target};
use crate::error::{Error, Failure};
use crate::pending_releases::PendingRelease;
use crate::releasing::{Expected, Releases, end_leases};
use crate::rules::backoff::RETRY;
use crate::rules::time::Instant;
use crate::runner::{Limits, Runner};
use crate::telemetry;

/// The most leases that one command gives back.
const BATCH_MAX: usize = 1_000;
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Something to be given back.
#[derive(Clone, Debug)]
pub(crate) struct GiveBack {
    pub(crate) target: Target,
    /// When it will have expired by itself: then there is nothing more to do.
    pub(crate) until: Instant,
    /// How long it was to be held at least, counted from the grant, where that is still to come.
    pub(crate) hold_at_least: Option<Duration>,
    /// What is likely to be found.
    pub(crate) expected: Expected,
    /// Held until the release has ended: who acquires the name waits for it.
    pub(crate) pending: Option<Arc<PendingRelease>>,
}

/// The way to the reaper. It works from anywhere, also outside a runtime, and never waits.
#[derive(Clone, Debug)]
pub(crate) struct Reaper {
    sender: mpsc::UnboundedSender<GiveBack>,
    stop: CancellationToken,
}

impl Reaper {
    /// Starts the task. It ends when every handle has gone or it is stopped, and all has been sent for.
    pub(crate) fn start(runner: &Runner, releases: Releases) -> Reaper {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        runner.spawn_service(work(runner.clone(), releases, receiver, stop.clone()));
        Reaper { sender, stop }
    }

    /// Lets it end when it has sent for what it has been told of so far.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Has something given back.
    pub(crate) fn give_back(&self, what: GiveBack) {
        // Without the task the runtime has ended, and the lease expires.
        let _ = self.sender.send(what);
    }
}

async fn work(
    runner: Runner,
    releases: Releases,
    mut receiver: mpsc::UnboundedReceiver<GiveBack>,
    stop: CancellationToken,
) {
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
        for (expected, batch) in by_expectation(now) {
            runner.spawn(release(runner.clone(), releases.clone(), batch, expected));
        }
        for what in later {
            runner.spawn(release_later(runner.clone(), releases.collection.clone(), what));
        }
    }
}

/// What is likely to be found goes together.
fn by_expectation(all: Vec<GiveBack>) -> impl Iterator<Item = (Expected, Vec<GiveBack>)> {
    let mut batches = Expected::ALL.map(|expected| (expected, Vec::new()));
    for what in all {
        let place = batches.iter_mut().find(|(expected, _)| *expected == what.expected);
        if let Some((_, batch)) = place {
            batch.push(what);
        }
    }
    batches.into_iter().filter(|(_, batch)| !batch.is_empty())
}

async fn release(runner: Runner, releases: Releases, batch: Vec<GiveBack>, expected: Expected) {
    let until = batch.iter().map(|what| what.until).max().unwrap_or(Instant::START);
    // Dropped at the end, when it is known what came of the release.
    let (targets, _pending): (Vec<Target>, Vec<_>) =
        batch.into_iter().map(|what| (what.target, what.pending)).unzip();
    let leases = targets.len();
    report(leases, end_leases(&runner, &releases, &targets, expected, limits(until)).await);
}

async fn release_later(runner: Runner, collection: String, what: GiveBack) {
    let hold_at_least = what.hold_at_least.unwrap_or_default();
    let command = ReleaseLater { collection, target: what.target, hold_at_least };
    report(1, runner.run(command, limits(what.until)).await);
}

fn limits(until: Instant) -> Limits {
    // Also what has expired by our clock gets one attempt: the server may see it otherwise.
    let deadline = until.max(clock::now().after(ATTEMPT));
    Limits { attempt: ATTEMPT, deadline, delays: RETRY }
}

fn report<T>(leases: usize, result: Result<T, Failure>) {
    if let Err(failure) = result {
        telemetry::not_given_back(leases, &Error::from(failure).to_string());
    }
}
