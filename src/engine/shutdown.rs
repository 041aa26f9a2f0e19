//! Shutdown: releases all leases and ends all tasks, within a time limit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease_core::rules::Instant;

use super::Engine;
use crate::hold::{AgendaKey, Holding};
use crate::mistake::{Mistake, is_made};
use crate::release::{Ending, ReleaseHint, Released};
use crate::retry::RetryPolicy;
use crate::telemetry;

/// How often a shutdown checks, after half of its time, whether all leases that are left are blocked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The outcome of a shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many leases were released: those that were held, and those that were dropped before and whose release was
    /// under way. One with the outcome [`Released::Unknown`](crate::Released::Unknown) counts: it is not held any more.
    pub released: usize,
    /// The names of such leases whose release was not confirmed in time. They end with their ttl at the latest, unless
    /// their documents are [damaged](crate::Error::Damaged): nothing is written to these.
    pub left_to_expire: Vec<String>,
    /// How many tasks were still waiting for the database when the time limit passed.
    pub tasks_left: usize,
}

impl Engine {
    /// Ends everything within the time limit. See [`LeaseManager::shutdown`](crate::LeaseManager::shutdown).
    pub(crate) async fn shut_down(&self) -> ShutdownReport {
        let deadline = self.clock().now().after(self.options.shutdown_timeout);
        let (has_runtime, polls) = (!self.ended.is_cancelled(), self.runner.polls_from_now());
        let has_runtime = has_runtime || self.closing.is_cancelled();
        self.background.begin_report();
        self.closing.cancel();
        self.runner.close_acquires();
        // Also for calls whose futures are no longer polled.
        self.waiters.abandon_all();
        // A lease whose handle is releasing it right now is no longer among those held: the handle ends it.
        let forgotten = usize::from(is_made(Mistake::LeaseForgotten));
        let held = self.renewer.holdings().into_iter().skip(forgotten);
        let held = held
            .filter(|(number, holding)| self.renewer.remove(*number) && holding.end_with_call());
        let told = |(_, holding): &(AgendaKey, Arc<Holding>)| holding.tell_released();
        self.leaving.lock().extend(held.inspect(told));
        let half = self.clock().now().after(self.options.shutdown_timeout / 2);
        let released = self.release_all(half, deadline).await;
        // Calls from before the shutdown get their answers now, and their grants are released: the background task
        // hears of it in time.
        self.runner.idle(half).await;
        self.background.give_up_blocked();
        self.runner.idle(deadline).await;
        self.background.stop();
        self.stop.cancel();
        self.runner.ended(deadline).await;
        self.runner.close();
        let name = |holding: &Arc<Holding>| holding.key.name().to_owned();
        let mut left_to_expire: Vec<_> = self.leaving.lock().values().map(name).collect();
        let dropped = self.background.report();
        left_to_expire.extend(dropped.left);
        left_to_expire.extend(self.pending_releases.reported());
        let (released, tasks_left) = (released + dropped.released, self.runner.tasks());
        if !has_runtime || polls.are_none() && tasks_left > 0 {
            telemetry::no_runtime(has_runtime, left_to_expire.len());
        }
        ShutdownReport { released, left_to_expire, tasks_left }
    }

    /// Releases the leases that the shutdown ended, and returns how many it released. Each release has to be confirmed
    /// by `deadline`, or by `half` where a transaction blocks its document; otherwise the lease stays in the list.
    async fn release_all(&self, half: Instant, deadline: Instant) -> usize {
        let all = self.leaving.lock().clone();
        let (later, now): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, holding)| holding.left_to_hold().is_some());
        for (number, holding) in &later {
            self.background.give_back(holding.give_back());
            self.leaving.lock().remove(number);
        }
        let mut released = later.len();
        let policy = RetryPolicy { attempt_timeout: self.timing.attempt_timeout, deadline };
        let endings = now.iter().map(|(_, holding)| {
            let hint = match holding.permits.is_exclusive() {
                true => ReleaseHint::Alone,
                false => holding.hint,
            };
            (Ending { target: holding.target(), hint, was_valid: true, applied: None }, policy)
        });
        let mut ended = self.releaser.end_all(endings.collect());
        let mut look_at = half;
        let mut not_held = Vec::new();
        loop {
            match self.clock().before(look_at, ended.next()).await {
                Some(Some((place, Ok(Released::NotHeld)))) => not_held.push(now[place].clone()),
                Some(Some((place, Ok(Released::Released | Released::Unknown)))) => {
                    released += 1;
                    self.leaving.lock().remove(&now[place].0);
                }
                Some(Some((_, Err(_)))) => {}
                Some(None) => break,
                // A look goes through all leases that are left, and not each answer needs one.
                None if self.all_left_are_blocked() => break,
                None => look_at = self.clock().now().after(LOOK_EVERY),
            }
        }
        released + self.forget_not_held(&not_held, policy).await
    }

    /// Forgets the leases that were not held any more, and returns how many. A lease whose document is damaged stays in
    /// the list.
    async fn forget_not_held(
        &self,
        not_held: &[(AgendaKey, Arc<Holding>)],
        policy: RetryPolicy,
    ) -> usize {
        let targets: Vec<_> = not_held.iter().map(|(_, holding)| holding.target()).collect();
        let damaged = self.releaser.damaged(&targets, policy).await;
        let gone = not_held.iter().filter(|it| !damaged.contains_key(it.1.key.name()));
        gone.filter(|(number, _)| self.leaving.lock().remove(number).is_some()).count()
    }

    fn all_left_are_blocked(&self) -> bool {
        self.leaving.lock().values().all(|holding| self.releaser.is_blocked(holding.key.name()))
    }
}
