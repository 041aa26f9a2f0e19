//! Watches for promotions: one change stream per manager, open while a call waits.
//!
//! The watcher only sets flags. If the stream is broken, silent or refused, missed events cost time but never a lease:
//! every waiter also sends attempts by its own clock.

use std::pin::pin;
use std::time::Duration;

use mongo_lease_core::commands::{Ping, StreamEvent};
use mongo_lease_core::rules::{
    Advice, Instant, ManagerId, PING_AFTER, PING_TIMEOUT, Reopening, STREAM_AWAIT, STREAM_OPENING,
    STREAM_SILENCE as SILENCE, StreamFailure,
};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::failure::Cause;
use crate::retry::{self, RetryPolicy};
use crate::runner::{EventStream, Heard, Runner};
use crate::telemetry::{Events, Polling};
use crate::token::Token;
use crate::wait::waiters::Waiters;

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
    /// No call waits.
    Idle,
    Failed {
        reason: String,
        failure: StreamFailure,
        /// Whether calls relied on it.
        was_open: bool,
        /// For how long it has worked, and left room for other commands.
        worked: Option<Duration>,
    },
}

/// The state of a stream that is followed.
#[derive(Default)]
struct Followed {
    /// Calls rely on it.
    is_open: bool,
    /// When a ping had passed for the first time within one read.
    works_since: Option<Instant>,
}

impl Watcher {
    /// Starts the task. It ends when `stop` is cancelled.
    pub(crate) fn start(self, stop: CancellationToken) {
        self.runner.clone().spawn_service(async move {
            // Dropping a read in progress closes its connection, but no write is lost.
            stop.run_until_cancelled(self.work()).await;
        });
    }

    async fn work(self) {
        let clock = self.runner.clock();
        let (mut reopening, mut is_polling) = (Reopening::default(), false);
        loop {
            let since = self.waiters.until_queued().await;
            // A stream that is asked for in vain would keep its place before a connection.
            if is_polling && self.ping().await.is_err() {
                clock.sleep(clock.about(reopening.later())).await;
                continue;
            }
            let StreamEnd::Failed { reason, failure, was_open, worked } = self.watch(since).await
            else {
                (reopening, is_polling) = (Reopening::default(), false);
                continue;
            };
            self.waiters.stream_is_gone();
            // Reported once, not at each try.
            if was_open || !is_polling {
                self.polling.begins(&self.events, reason);
            }
            is_polling = true;
            // If no other command gets through now, without it, the database is away for all.
            let failure = match self.ping().await {
                Ok(()) => failure,
                Err(_) => StreamFailure::Passing,
            };
            clock.sleep(clock.about(reopening.after(failure, worked))).await;
        }
    }

    async fn watch(&self, since: Option<Token>) -> StreamEnd {
        let deadline = self.runner.clock().now().after(STREAM_OPENING);
        match self.runner.watch(&self.manager_id, since, STREAM_AWAIT, deadline).await {
            Ok(stream) => self.follow(stream, since).await,
            Err(failed) => {
                let is_answered = !matches!(failed.cause, Cause::Deadline);
                let failure = match failed.outcome.advice {
                    Advice::Retry | Advice::CheckIndexes if is_answered => StreamFailure::Passing,
                    Advice::Retry | Advice::CheckIndexes | Advice::Stop => StreamFailure::Lasting,
                };
                let reason = Error::from(failed).to_string();
                StreamEnd::Failed { reason, failure, was_open: false, worked: None }
            }
        }
    }

    async fn follow(&self, mut stream: EventStream, since: Option<Token>) -> StreamEnd {
        let (mut followed, mut was_idle) = (Followed::default(), false);
        let mut passing = pin!(self.a_ping_passes());
        let mut sent_at = self.runner.clock().now().after(PING_AFTER);
        let failed = |reason: String, failure, followed: Followed| {
            let worked = followed.works_since.map(|at| self.runner.clock().now().since(at));
            StreamEnd::Failed { reason, failure, was_open: followed.is_open, worked }
        };
        loop {
            let mut has_passed = false;
            let began = self.runner.clock().now();
            if followed.is_open {
                // Repeated in each read: other commands may have come to the pool since. The first test goes on across
                // events, which may arrive without a pause.
                passing.set(self.a_ping_passes());
                sent_at = began.after(PING_AFTER);
            }
            let heard = {
                let mut next = pin!(stream.next());
                let silent_at = self.runner.clock().now().after(SILENCE);
                loop {
                    tokio::select! {
                        biased;
                        heard = &mut next => break heard,
                        () = self.runner.clock().sleep_until(silent_at) => {
                            let reason = format!("the change stream was silent for {SILENCE:?}");
                            return failed(reason, StreamFailure::Passing, followed);
                        }
                        passed = &mut passing, if !has_passed => {
                            if let Err(reason) = passed {
                                return failed(reason, StreamFailure::Lasting, followed);
                            }
                            let now = self.runner.clock().now();
                            if !followed.is_open {
                                followed.is_open = true;
                                self.stream_is_open(since, now);
                            }
                            // A ping from before this read may have had the connection of the one before.
                            has_passed = began <= sent_at;
                            if has_passed {
                                followed.works_since.get_or_insert(now);
                            } else {
                                passing.set(self.a_ping_passes());
                                sent_at = self.runner.clock().now().after(PING_AFTER);
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
                    return failed(REASON.to_owned(), StreamFailure::Passing, followed);
                }
                Ok(Heard::Idle) => {
                    let is_idle = !self.waiters.has_queued();
                    if is_idle && was_idle && self.waiters.close_stream() {
                        return StreamEnd::Idle;
                    }
                    was_idle = is_idle;
                }
                Err(error) => {
                    let reason = Error::from(error).to_string();
                    return failed(reason, StreamFailure::Passing, followed);
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
    fn stream_is_open(&self, since: Option<Token>, now: Instant) {
        self.waiters.stream_is_open(since, now);
        self.polling.ends(&self.events);
    }

    /// Whether a command gets through while the stream has its connection: the streams of several managers may use the
    /// whole pool, and block all other commands.
    async fn a_ping_passes(&self) -> Result<(), String> {
        self.runner.clock().sleep(PING_AFTER).await;
        self.ping().await.map_err(|error| {
            format!("no other command gets through while the change stream is open: {error}")
        })
    }

    /// Whether a command gets through now.
    async fn ping(&self) -> Result<(), Error> {
        // From now on, and not from a moment that the end of a sleep may be long after.
        let policy = RetryPolicy::one_attempt(self.runner.clock().now(), PING_TIMEOUT);
        retry::run(&self.runner, Ping, policy).await.map(drop).map_err(Error::from)
    }
}
