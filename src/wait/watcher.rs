//! Watches for promotions: one change stream per manager, open while a call waits.
//!
//! The watcher only sets flags. If the stream is broken, silent or refused, missed events cost time but never a lease:
//! every waiter also sends attempts by its own clock.

use std::pin::pin;
use std::time::Duration;

use mongo_lease_core::commands::{Ping, StreamEvent};
use mongo_lease_core::rules::{ManagerId, REOPEN};
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
        /// Whether it had reported before.
        was_open: bool,
        /// It uses the connection that other commands need.
        is_crowded: bool,
    },
}

impl StreamEnd {
    fn failed(reason: String, was_open: bool) -> StreamEnd {
        StreamEnd::Failed { reason, was_open, is_crowded: false }
    }
}

impl Watcher {
    /// Starts the task. It ends when `stop` is cancelled.
    pub(crate) fn start(self, stop: CancellationToken) {
        self.runner.clone().spawn_service(self.work(stop));
    }

    async fn work(self, stop: CancellationToken) {
        let mut delays = self.runner.clock().jittered(REOPEN);
        let mut is_polling = false;
        loop {
            let since = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                since = self.waiters.until_queued() => since,
            };
            let (reason, was_open, is_crowded) = match self.watch(since, &stop).await {
                StreamEnd::Stopped => return,
                StreamEnd::Idle => {
                    is_polling = false;
                    delays = self.runner.clock().jittered(REOPEN);
                    continue;
                }
                StreamEnd::Failed { reason, was_open, is_crowded } => {
                    (reason, was_open, is_crowded)
                }
            };
            // In a crowded pool each try costs all other commands a moment, so tries become rarer.
            if was_open && !is_crowded {
                delays = self.runner.clock().jittered(REOPEN);
            }
            self.waiters.stream_is_gone();
            // Reported once, not at each try.
            if was_open || !is_polling {
                self.polling.begins(&self.events, reason);
            }
            is_polling = true;
            let delay = delays.next().unwrap_or(REOPEN.longest);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.runner.clock().sleep(delay) => {}
            }
        }
    }

    async fn watch(&self, since: Option<Token>, stop: &CancellationToken) -> StreamEnd {
        let deadline = self.runner.clock().now().after(OPENING);
        let opening = self.runner.watch(&self.manager_id, since, AWAIT, deadline);
        match stop.run_until_cancelled(opening).await {
            None => StreamEnd::Stopped,
            Some(Ok(stream)) => self.follow(stream, since, stop).await,
            Some(Err(failure)) => StreamEnd::failed(Error::from(failure).to_string(), false),
        }
    }

    async fn follow(
        &self,
        mut stream: EventStream,
        since: Option<Token>,
        stop: &CancellationToken,
    ) -> StreamEnd {
        let mut was_open = false;
        let mut was_idle = false;
        let mut passing = pin!(self.a_ping_passes());
        let mut sent_at = self.runner.clock().now().after(BESIDE);
        loop {
            let mut has_passed = false;
            let began = self.runner.clock().now();
            if was_open {
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
                            return StreamEnd::failed(reason, was_open);
                        }
                        passed = &mut passing, if !has_passed => {
                            if let Err(reason) = passed {
                                return StreamEnd::Failed { reason, was_open, is_crowded: true };
                            }
                            self.stream_works(since, &mut was_open);
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
                    let reason = "the server closed the change stream".to_owned();
                    return StreamEnd::failed(reason, was_open);
                }
                Ok(Heard::Idle) => {
                    let is_idle = !self.waiters.has_queued();
                    if is_idle && was_idle && self.waiters.close_stream() {
                        return StreamEnd::Idle;
                    }
                    was_idle = is_idle;
                }
                Err(error) => return StreamEnd::failed(Error::from(error).to_string(), was_open),
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
    fn stream_works(&self, since: Option<Token>, was_open: &mut bool) {
        if !std::mem::replace(was_open, true) {
            self.waiters.stream_is_open(since, self.runner.clock().now());
            self.polling.ends(&self.events);
        }
    }

    /// Whether a command gets through while the stream has its connection: the streams of several managers may use the
    /// whole pool, and block all other commands.
    async fn a_ping_passes(&self) -> Result<(), String> {
        let clock = self.runner.clock();
        clock.sleep(BESIDE).await;
        // From now on, and not from a moment that the end of the sleep may be long after.
        let policy = RetryPolicy::one_attempt(clock.now(), PASSING);
        let passed = retry::run(&self.runner, Ping, policy).await.map_err(Error::from);
        passed.map(drop).map_err(|error| {
            format!("no other command gets through while the change stream is open: {error}")
        })
    }
}
