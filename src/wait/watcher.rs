//! Watches for promotions: one change stream per manager, open while a call waits.
//!
//! The watcher only sets flags. If the stream is broken, silent or refused, missed events cost time but never a lease:
//! every waiter also sends attempts by its own clock.

use std::pin::pin;
use std::time::Duration;

use mongo_lease_core::commands::{Ping, StreamEvent};
use mongo_lease_core::rules::{Advice, Delays, Instant, ManagerId, REOPEN, REOPEN_RARELY};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::retry::{self, RetryPolicy};
use crate::runner::{EventStream, Heard, Runner};
use crate::telemetry::{Events, Polling};
use crate::token::Token;
use crate::wait::waiters::Waiters;

/// How long the server waits for an event before it sends an empty answer.
const AWAIT: Duration = Duration::from_secs(10);
/// How long a stream may be silent before it counts as broken. A connection can die without being closed.
const SILENCE: Duration = Duration::from_secs(15);
const OPENING: Duration = Duration::from_secs(10);
/// The delay of a ping that tests whether commands still get a connection. Counted from the stream's read.
const BESIDE: Duration = Duration::from_millis(250);
/// The time limit of that ping.
const PASSING: Duration = Duration::from_secs(1);
/// A stream that has worked for so long was not in the way of other commands.
const STEADY: Duration = Duration::from_secs(60);

/// The task that watches, and the waiters that it notifies.
pub(crate) struct Watcher {
    pub(crate) runner: Runner,
    pub(crate) manager_id: ManagerId,
    pub(crate) waiters: Waiters,
    pub(crate) events: Events,
    pub(crate) polling: Polling,
}

/// Why a stream is no longer followed.
enum StreamEnd {
    /// The manager shuts down.
    Stopped,
    /// No call waits.
    Idle,
    Failed {
        reason: String,
        cause: FailureKind,
        /// For how long it has worked; `None` if it has reported nothing.
        worked: Option<Duration>,
    },
}

/// How soon the stream may be opened again after a failure of this kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    /// It may pass at any moment.
    Passing,
    /// The server refuses the stream.
    Refused,
    /// No other command got through beside it: the database is away, or the stream has the connection that they need.
    InTheWay,
}

impl Watcher {
    /// Starts the task. It ends when `stop` is cancelled.
    pub(crate) fn start(self, stop: CancellationToken) {
        self.runner.clone().spawn_service(self.work(stop));
    }

    async fn work(self, stop: CancellationToken) {
        let delays = |delays: Delays| self.runner.clock().jittered(delays);
        let (mut soon, mut rarely) = (delays(REOPEN), delays(REOPEN_RARELY));
        let mut is_polling = false;
        loop {
            let since = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                since = self.waiters.until_queued() => since,
            };
            let (reason, cause, worked) = match self.watch(since, &stop).await {
                StreamEnd::Stopped => return,
                StreamEnd::Idle => {
                    is_polling = false;
                    (soon, rarely) = (delays(REOPEN), delays(REOPEN_RARELY));
                    continue;
                }
                StreamEnd::Failed { reason, cause, worked } => (reason, cause, worked),
            };
            if worked.is_some() {
                soon = delays(REOPEN);
            }
            if worked.is_some_and(|worked| worked >= STEADY) {
                rarely = delays(REOPEN_RARELY);
            }
            self.waiters.stream_is_gone();
            // Reported once, not at each try.
            if worked.is_some() || !is_polling {
                self.polling.begins(&self.events, reason);
            }
            is_polling = true;
            let next = async {
                let delay = match self.has_to_be_rare(cause).await {
                    true => rarely.next().unwrap_or(REOPEN_RARELY.longest),
                    false => soon.next().unwrap_or(REOPEN.longest),
                };
                self.runner.clock().sleep(delay).await;
            };
            if stop.run_until_cancelled(next).await.is_none() {
                return;
            }
        }
    }

    /// Whether the tries become ever rarer. A stream was in the way only if a command gets through now, without it:
    /// otherwise the database is away for all.
    async fn has_to_be_rare(&self, cause: FailureKind) -> bool {
        match cause {
            FailureKind::Passing => false,
            FailureKind::Refused => true,
            FailureKind::InTheWay => self.ping().await.is_ok(),
        }
    }

    async fn watch(&self, since: Option<Token>, stop: &CancellationToken) -> StreamEnd {
        let deadline = self.runner.clock().now().after(OPENING);
        let opening = self.runner.watch(&self.manager_id, since, AWAIT, deadline);
        match stop.run_until_cancelled(opening).await {
            None => StreamEnd::Stopped,
            Some(Ok(stream)) => self.follow(stream, since, stop).await,
            Some(Err(failure)) => {
                let cause = match failure.outcome.advice {
                    Advice::Stop => FailureKind::Refused,
                    Advice::Retry | Advice::CheckIndexes => FailureKind::Passing,
                };
                let reason = Error::from(failure).to_string();
                StreamEnd::Failed { reason, cause, worked: None }
            }
        }
    }

    async fn follow(
        &self,
        mut stream: EventStream,
        since: Option<Token>,
        stop: &CancellationToken,
    ) -> StreamEnd {
        let (mut opened, mut was_idle) = (None, false);
        let mut passing = pin!(self.a_ping_passes());
        let mut sent_at = self.runner.clock().now().after(BESIDE);
        let failed = |reason: String, cause, opened: Option<Instant>| {
            let worked = opened.map(|at| self.runner.clock().now().since(at));
            StreamEnd::Failed { reason, cause, worked }
        };
        loop {
            let mut has_passed = false;
            let began = self.runner.clock().now();
            if opened.is_some() {
                // Repeated in each read: other commands may have come to the pool since. The first test goes on across
                // events, which may arrive without a pause.
                passing.set(self.a_ping_passes());
                sent_at = began.after(BESIDE);
            }
            let heard = {
                let mut next = pin!(stream.next());
                let silent_at = self.runner.clock().now().after(SILENCE);
                loop {
                    tokio::select! {
                        biased;
                        // Dropping a read in progress closes its connection, but no write is lost.
                        () = stop.cancelled() => return StreamEnd::Stopped,
                        heard = &mut next => break heard,
                        () = self.runner.clock().sleep_until(silent_at) => {
                            let reason = format!("the change stream was silent for {SILENCE:?}");
                            return failed(reason, FailureKind::Passing, opened);
                        }
                        passed = &mut passing, if !has_passed => {
                            if let Err(reason) = passed {
                                return failed(reason, FailureKind::InTheWay, opened);
                            }
                            self.stream_works(since, &mut opened);
                            // A ping from before this read may have had the connection of the one before.
                            has_passed = began <= sent_at;
                            if !has_passed {
                                passing.set(self.a_ping_passes());
                                sent_at = self.runner.clock().now().after(BESIDE);
                            }
                        }
                    }
                }
            };
            match heard {
                Ok(Heard::Event(event)) => self.tell(event),
                Ok(Heard::NotOurs) => {}
                Ok(Heard::Closed) => {
                    const REASON: &str = "the server closed the change stream";
                    return failed(REASON.to_owned(), FailureKind::Passing, opened);
                }
                Ok(Heard::Idle) => {
                    let is_idle = !self.waiters.has_queued();
                    if is_idle && was_idle && self.waiters.close_stream() {
                        return StreamEnd::Idle;
                    }
                    was_idle = is_idle;
                }
                Err(error) => {
                    return failed(Error::from(error).to_string(), FailureKind::Passing, opened);
                }
            }
        }
    }

    fn tell(&self, event: StreamEvent) {
        match event {
            StreamEvent::Promoted(promotion) => self.waiters.promoted(promotion),
            StreamEvent::Admitted { admissions, recheck } => {
                admissions.into_iter().for_each(|admission| self.waiters.promoted(admission));
                if let Some(call_id) = recheck {
                    self.waiters.recheck(&call_id);
                }
            }
            StreamEvent::Recheck { call_id } => self.waiters.recheck(&call_id),
        }
    }

    /// From now on all waiters rely on the stream.
    fn stream_works(&self, since: Option<Token>, opened: &mut Option<Instant>) {
        if opened.is_none() {
            let now = self.runner.clock().now();
            *opened = Some(now);
            self.waiters.stream_is_open(since, now);
            self.polling.ends(&self.events);
        }
    }

    /// Whether a command gets through while the stream has its connection: the streams of several managers may use the
    /// whole pool, and block all other commands.
    async fn a_ping_passes(&self) -> Result<(), String> {
        self.runner.clock().sleep(BESIDE).await;
        self.ping().await.map_err(|error| {
            format!("no other command gets through while the change stream is open: {error}")
        })
    }

    /// Whether a command gets through now.
    async fn ping(&self) -> Result<(), Error> {
        // From now on, and not from a moment that the end of a sleep may be long after.
        let policy = RetryPolicy::one_attempt(self.runner.clock().now(), PASSING);
        retry::run(&self.runner, Ping, policy).await.map(drop).map_err(Error::from)
    }
}
