//! Watches for promotions to this manager: one change stream, open while somebody waits.
//!
//! It sets flags and does nothing else. What it does not tell, because the stream is broken, or silent, or refused,
//! costs time and never a lease: every waiter asks by its own clock as well.

use std::pin::pin;
use std::time::Duration;

use mongodb::bson::Document;
use mongodb::change_stream::ChangeStream;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::probe::Ping;
use crate::commands::watch::{self, StreamEvent};
use crate::error::Error;
use crate::events::{Event, Events};
use crate::retry::{self, RetryPolicy};
use crate::rules::backoff::REOPEN;
use crate::rules::ids::ManagerId;
use crate::rules::token::Token;
use crate::runner::Runner;
use crate::telemetry;
use crate::wait::waiters::Waiters;

/// How long the server waits for an event before it answers that there is none.
const AWAIT: Duration = Duration::from_secs(10);
/// After how long without an answer a stream counts as broken: a connection can die without anybody closing it.
const SILENCE: Duration = Duration::from_secs(15);
/// How long the opening may take.
const OPENING: Duration = Duration::from_secs(10);
/// How long after the stream another command is sent, to see whether it comes through beside it.
const BESIDE: Duration = Duration::from_millis(250);
/// In what time it has to.
const PASSING: Duration = Duration::from_secs(1);

/// What is watched, and who is told.
pub(crate) struct Watcher {
    pub(crate) runner: Runner,
    pub(crate) manager_id: ManagerId,
    pub(crate) waiters: Waiters,
    pub(crate) events: Events,
}

/// Why a stream is not followed any more.
enum End {
    /// The manager goes.
    Stopped,
    /// Nobody waits.
    Idle,
    /// It has the connection that others need.
    Crowded {
        reason: String,
        /// It told before.
        has_told: bool,
    },
    /// It does not tell.
    Failed {
        reason: String,
        /// It did before.
        has_told: bool,
    },
}

impl Watcher {
    /// Starts the task. It ends when `stop` is cancelled.
    pub(crate) fn start(self, stop: CancellationToken) {
        self.runner.clone().spawn_service(self.work(stop));
    }

    async fn work(self, stop: CancellationToken) {
        let mut delays = clock::jittered(REOPEN);
        let mut is_polling = false;
        loop {
            let since = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                since = self.waiters.somebody_joined() => since,
            };
            let (reason, has_told) = match self.watch(since, &stop).await {
                End::Stopped => return,
                End::Idle => {
                    is_polling = false;
                    delays = clock::jittered(REOPEN);
                    continue;
                }
                // Each try costs everybody else a moment: more and more seldom.
                End::Crowded { reason, has_told } => (reason, has_told),
                End::Failed { reason, has_told } => {
                    if has_told {
                        delays = clock::jittered(REOPEN);
                    }
                    (reason, has_told)
                }
            };
            self.waiters.stream_is_gone();
            // Once, not at each try.
            if has_told || !is_polling {
                telemetry::polling(&reason);
                self.events.tell(|| Event::Polling { reason });
            }
            is_polling = true;
            let delay = delays.next().unwrap_or(REOPEN.longest);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = clock::sleep_until(clock::now().after(delay)) => {}
            }
        }
    }

    async fn watch(&self, since: Option<Token>, stop: &CancellationToken) -> End {
        let deadline = clock::now().after(OPENING);
        let pipeline = watch::pipeline(&self.manager_id);
        let opening = self.runner.watch(pipeline, since, AWAIT, deadline);
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => return End::Stopped,
            opened = opening => opened,
        };
        match opened {
            Ok(stream) => self.follow(stream, since, stop).await,
            Err(failure) => {
                End::Failed { reason: Error::from(failure).to_string(), has_told: false }
            }
        }
    }

    async fn follow(
        &self,
        mut stream: ChangeStream<Document>,
        since: Option<Token>,
        stop: &CancellationToken,
    ) -> End {
        let mut has_told = false;
        let mut was_idle = false;
        let mut passing = pin!(self.something_passes());
        loop {
            let mut has_passed = false;
            if has_told {
                // Again in each wait for an event: others may have come to the pool since the last. The first time it
                // goes on through all events, which may come without a pause.
                passing.set(self.something_passes());
            }
            let heard = {
                let mut next = pin!(stream.next_if_any());
                let silent_at = clock::now().after(SILENCE);
                loop {
                    tokio::select! {
                        biased;
                        // Dropping what is under way closes its connection. It only reads.
                        () = stop.cancelled() => return End::Stopped,
                        heard = &mut next => break heard,
                        () = clock::sleep_until(silent_at) => {
                            let reason = format!("the change stream was silent for {SILENCE:?}");
                            return End::Failed { reason, has_told };
                        }
                        passed = &mut passing, if !has_passed => {
                            if let Err(reason) = passed {
                                return End::Crowded { reason, has_told };
                            }
                            has_passed = true;
                            self.tells(since, &mut has_told);
                        }
                    }
                }
            };
            match heard {
                Ok(Some(event)) => match watch::decode(&event) {
                    Some(StreamEvent::Promoted(promotion)) => self.waiters.promoted(promotion),
                    Some(StreamEvent::Recheck { call_id }) => self.waiters.recheck(&call_id),
                    None => {}
                },
                Ok(None) if !stream.is_alive() => {
                    let reason = "the server closed the change stream".to_owned();
                    return End::Failed { reason, has_told };
                }
                Ok(None) => {
                    let is_idle = !self.waiters.somebody_is_in_line();
                    if is_idle && was_idle && self.waiters.close_stream() {
                        return End::Idle;
                    }
                    was_idle = is_idle;
                }
                Err(error) => {
                    return End::Failed { reason: Error::from(error).to_string(), has_told };
                }
            }
        }
    }

    /// From now on everybody relies on it.
    fn tells(&self, since: Option<Token>, has_told: &mut bool) {
        if !std::mem::replace(has_told, true) {
            self.waiters.stream_is_open(since, clock::now());
            telemetry::watching();
            self.events.tell(|| Event::Watching);
        }
    }

    /// Whether a command comes through while the stream has its connection. In a pool of one it does not, nor where
    /// the streams of several managers have the whole pool, and then a stream would keep everything else waiting.
    async fn something_passes(&self) -> Result<(), String> {
        let sent = clock::now().after(BESIDE);
        clock::sleep_until(sent).await;
        let policy = RetryPolicy { attempt: PASSING, deadline: sent.after(PASSING) };
        match retry::run(&self.runner, Ping, policy).await {
            Ok(_) => Ok(()),
            Err(failure) => {
                let error = Error::from(failure);
                Err(format!(
                    "no other command gets through while the change stream is open: {error}"
                ))
            }
        }
    }
}
