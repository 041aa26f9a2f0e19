//! Gives back what nobody took: grants whose caller has gone, and leases that were dropped.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::acquire::Ask;
use crate::commands::release::{Release, ReleaseLater, Target, Which};
use crate::error::{Error, Failure};
use crate::rules::attempts::{Attempts, Effect, Next};
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
}

/// The way to the reaper. It works from anywhere, also outside a runtime, and never waits.
#[derive(Clone, Debug)]
pub(crate) struct Reaper {
    sender: mpsc::UnboundedSender<GiveBack>,
    stop: CancellationToken,
}

impl Reaper {
    /// Starts the task. It ends when every handle has gone or it is stopped, and all has been sent for.
    pub(crate) fn start(runner: &Runner, collection: String) -> Reaper {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        runner.spawn_service(work(runner.clone(), collection, receiver, stop.clone()));
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
    collection: String,
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
        if !now.is_empty() {
            runner.spawn(release(runner.clone(), collection.clone(), now));
        }
        for what in later {
            runner.spawn(release_later(runner.clone(), collection.clone(), what));
        }
    }
}

async fn release(runner: Runner, collection: String, batch: Vec<GiveBack>) {
    let until = batch.iter().map(|what| what.until).max().unwrap_or(Instant::START);
    let targets: Vec<Target> = batch.into_iter().map(|what| what.target).collect();
    let leases = targets.len();
    report(leases, runner.run(Release { collection, targets }, limits(until)).await);
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

/// One acquire call, as its attempts and its lease share it.
#[derive(Debug)]
pub(crate) struct Call {
    attempts: Mutex<Attempts>,
    ask: Arc<Ask>,
    /// The grant that the caller took.
    taken: OnceLock<String>,
    reaper: Reaper,
    /// Cancelled when the manager takes no more: then nobody takes what is granted from now on.
    closing: CancellationToken,
}

impl Call {
    pub(crate) fn new(ask: Arc<Ask>, reaper: Reaper, closing: CancellationToken) -> Arc<Call> {
        let attempts = Mutex::new(Attempts::new());
        Arc::new(Call { attempts, ask, taken: OnceLock::new(), reaper, closing })
    }

    /// An attempt goes out; the answer is its number.
    pub(crate) fn start(&self) -> u32 {
        self.with(Attempts::start)
    }

    /// An attempt has been answered.
    pub(crate) fn answered(&self, effect: Effect) {
        let next = self.with(|attempts| match attempts.answered(effect) {
            // The caller may look only when the reaper has gone.
            Next::Nothing if self.closing.is_cancelled() => attempts.abandon(),
            Next::Nothing => Next::Nothing,
            Next::GiveBack => Next::GiveBack,
        });
        self.carry_out(next);
    }

    /// The caller takes what was granted. False when it had gone.
    pub(crate) fn take(&self, grant_id: &str) -> bool {
        // Before anybody can hear of it: what is given back from now on is another grant.
        let _ = self.taken.set(grant_id.to_owned());
        self.with(Attempts::take)
    }

    /// Whether nothing can come of this call but what its caller is about to take.
    pub(crate) fn has_one_grant_only(&self) -> bool {
        self.with(|attempts| attempts.has_one_grant_only())
    }

    /// The caller has gone.
    pub(crate) fn abandon(&self) {
        let next = self.with(Attempts::abandon);
        self.carry_out(next);
    }

    /// The lease has ended, and what was granted so far with it.
    pub(crate) fn settle(&self) {
        let next = self.with(Attempts::settle);
        self.carry_out(next);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Attempts) -> T) -> T {
        change(&mut self.attempts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn carry_out(&self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::GiveBack => {
                let ask = &self.ask;
                let grant =
                    Which::Call { call_id: ask.call_id.clone(), except: self.taken.get().cloned() };
                let target = Target { name: ask.name.clone(), value: ask.value.clone(), grant };
                // For so long a grant can stand that nobody renews.
                let until = clock::now().after(ask.timing.ttl).after(ask.timing.allowance);
                self.reaper.give_back(GiveBack { target, until, hold_at_least: None });
            }
        }
    }
}
