//! Gives the server signs of life of all who wait: one task a manager, one command for all names.
//!
//! The task waits for nothing but the clock. A command that is held up goes apart from then on, as in the renewer, so a
//! transaction that has one lease's document costs the others no more than one short command.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::beat::{Beat, InLine};
use crate::error::{Error, Failure};
use crate::hints::HeldUpNames;
use crate::places::{Place, Places, Signal};
use crate::rules::backoff::RETRY;
use crate::rules::batching::pieces;
use crate::rules::time::Instant;
use crate::runner::{Limits, Runner};
use crate::telemetry;

/// The most waiters in one command.
const BATCH_MAX: usize = 1_000;

/// Starts the task. It ends when `stop` is cancelled.
pub(crate) fn start(
    runner: &Runner,
    collection: String,
    places: Places,
    held_up: &HeldUpNames,
    stop: CancellationToken,
) {
    let heart = Heart { runner: runner.clone(), collection, places, held_up: held_up.clone() };
    runner.spawn_service(heart.work(stop));
}

#[derive(Clone)]
struct Heart {
    runner: Runner,
    collection: String,
    places: Places,
    held_up: HeldUpNames,
}

impl Heart {
    async fn work(self, stop: CancellationToken) {
        loop {
            let (due, wake_at) = self.places.due(clock::now());
            let (alone, together): (Vec<_>, Vec<_>) =
                due.into_iter().partition(|place| place.goes_alone());
            for batch in together.chunks(BATCH_MAX) {
                self.start_beat(batch.to_vec(), self.places.life() / 6, false);
            }
            for place in alone {
                self.start_beat(vec![place], self.places.life() / 6, true);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.places.sooner() => {}
                () = clock::sleep_until(wake_at) => {}
            }
        }
    }

    fn start_beat(&self, batch: Vec<Arc<Place>>, time: Duration, is_held_up: bool) {
        let heart = self.clone();
        self.runner.spawn(async move {
            heart.beat(batch, time, is_held_up).await;
        });
    }

    async fn beat(&self, batch: Vec<Arc<Place>>, time: Duration, is_held_up: bool) {
        let places: Vec<_> = batch.iter().map(|place| place.entry()).collect();
        let asked = i64::try_from(places.len()).unwrap_or(i64::MAX);
        let life = self.places.life();
        let command = Beat { collection: self.collection.clone(), places, life };
        let limits = Limits { attempt: time, deadline: clock::now().after(time), delays: RETRY };
        match self.runner.run_batch(command, limits, is_held_up).await {
            Ok(reply) if reply.matched == asked => {
                for place in &batch {
                    place.beaten(reply.sent, life);
                    if is_held_up {
                        self.held_up.went_through(&place.call.ask.name);
                    }
                }
            }
            Ok(reply) => self.sort_out(&batch, reply.sent, limits).await,
            Err(failure) if failure.is_held_up() => {
                match pieces(batch, |place| &place.call.ask.name) {
                    Ok(pieces) => {
                        for piece in pieces {
                            self.start_beat(piece, time * 2 / 3, false);
                        }
                    }
                    Err(batch) => {
                        for place in &batch {
                            place.is_held_up();
                            self.held_up.found(&place.call.ask.name);
                        }
                        self.failed(&batch, failure);
                    }
                }
            }
            Err(failure) => self.failed(&batch, failure),
        }
    }

    /// Some are not in line: has them ask.
    async fn sort_out(&self, batch: &[Arc<Place>], sent: Instant, limits: Limits) {
        let places = batch.iter().map(|place| place.entry()).collect();
        let look = InLine { collection: self.collection.clone(), places };
        let limits = Limits { deadline: clock::now().after(limits.attempt), ..limits };
        let present: HashSet<_> = match self.runner.run(look, limits).await {
            Ok(answer) => answer.reply.into_iter().collect(),
            Err(failure) => return self.failed(batch, failure),
        };
        for place in batch {
            match present.contains(&place.entry()) {
                true => place.beaten(sent, self.places.life()),
                false => place.signal(Signal::AskAgain),
            }
        }
    }

    /// They try again before long: after a failover the first of these is what keeps the line in order.
    fn failed(&self, batch: &[Arc<Place>], failure: Failure) {
        telemetry::not_beaten(batch.len(), &Error::from(failure).to_string());
        let soon = clock::now().after(self.places.life() / 12);
        batch.iter().for_each(|place| place.beats_at(soon));
        self.places.look_again();
    }
}
