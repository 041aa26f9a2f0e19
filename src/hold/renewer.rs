//! Renews held leases and declares them lost: one task per manager.
//!
//! The task waits for the clock only. Each command runs in its own task and reports its result to the holdings, so a
//! command that hangs delays no other command and no loss. Invariants:
//!
//! 1. Each holding in the agenda is there exactly once.
//! 2. Locks are taken in the order agenda, then holding: no task waits for the agenda's lock while it has a holding's.
//! 3. The renewer keeps neither a manager nor a lease alive.

use std::pin::Pin;
use std::sync::Arc;

use mongo_lease_core::commands::{
    FindHolders, GrantKey, LeaseSnapshot, Matched, RenewHolders, RenewMany, SharedSnapshot, Trace,
    Unconfirmed,
};
use mongo_lease_core::rules::{Advice, Applied, HoldAction, HoldEvent, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::agenda::{Agenda, Scheduled};
use super::renewals::{
    Batch, Due, NumberedHolding, WrittenBy, after_look, after_look_at_holders, batches, failed,
    renewed,
};
use crate::error::Error;
use crate::failure::Failure;
use crate::hints::NameHint;
use crate::hold::{AgendaKey, Grant, Holding};
use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};
use crate::retry;
use crate::runner::{AppliedResult, Runner};
use crate::telemetry::{self, BlockedLog, Events};

/// The handle to the renewer task.
#[derive(Clone)]
pub(crate) struct Renewer {
    shared: Arc<Inner>,
    events: Events,
}

struct Inner {
    runner: Runner,
    blocked: NameHint,
    blocked_log: BlockedLog,
    agenda: Lock<Agenda>,
    /// Cancelled when the manager shuts down.
    closing: CancellationToken,
    /// Notified when the task has to look at the agenda before `wakes_at`.
    sooner: Notify,
}

impl Renewer {
    /// Starts the task. It ends when `stop` is cancelled.
    pub(crate) fn start(
        runner: &Runner,
        (blocked, blocked_log): (&NameHint, &BlockedLog),
        events: &Events,
        closing: &CancellationToken,
        stop: CancellationToken,
    ) -> Renewer {
        let shared = Arc::new(Inner {
            runner: runner.clone(),
            blocked: blocked.clone(),
            blocked_log: blocked_log.clone(),
            agenda: Lock::default(),
            closing: closing.clone(),
            sooner: Notify::new(),
        });
        runner.spawn_service(Arc::clone(&shared).work(stop));
        Renewer { shared, events: events.clone() }
    }

    /// Makes a holding of a grant, and keeps it renewed.
    ///
    /// Returns `None` if the grant's validity has already ended, or the manager shuts down: then it is not a grant.
    pub(crate) fn hold(&self, grant: Grant) -> Option<(AgendaKey, Arc<Holding>)> {
        let holding =
            Arc::new(Holding::new(grant, self.events.clone(), self.shared.runner.clock().clone()));
        if !holding.is_valid() {
            return None;
        }
        let number = self.insert(Arc::clone(&holding));
        // Checked after the insertion: a shutdown that begins after this check finds the holding in the agenda.
        if self.shared.closing.is_cancelled() {
            self.remove(number);
            holding.end();
            return None;
        }
        Some((number, holding))
    }

    fn insert(&self, holding: Arc<Holding>) -> AgendaKey {
        let at = holding.wake_at();
        let mut agenda = self.shared.agenda.lock();
        let number = AgendaKey(agenda.next_number);
        agenda.next_number += 1;
        // A release does not move `wakes_at`, so a manager that acquires and releases does not wake the task each time.
        let is_sooner = agenda.wakes_at.is_some_and(|wakes_at| at < wakes_at);
        agenda.times.insert((at, number));
        agenda.holdings.insert(number, Scheduled { holding, at });
        drop(agenda);
        telemetry::count_held(1.0);
        if is_sooner {
            self.shared.sooner.notify_one();
        }
        number
    }

    /// Removes a holding. Returns false if it was already removed.
    pub(crate) fn remove(&self, number: AgendaKey) -> bool {
        self.shared.agenda.lock().remove(number).is_some()
    }

    pub(crate) fn holdings(&self) -> Vec<(AgendaKey, Arc<Holding>)> {
        let agenda = self.shared.agenda.lock();
        let each =
            |(&number, place): (&AgendaKey, &Scheduled)| (number, Arc::clone(&place.holding));
        agenda.holdings.iter().map(each).collect()
    }

    /// Whether this manager holds a lease of this name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        let agenda = self.shared.agenda.lock();
        let mut holdings = agenda.holdings.values().map(|place| &place.holding);
        holdings.any(|holding| holding.key.name() == name && holding.is_valid())
    }

    /// Makes the task call the rules again after an event on this holding.
    pub(crate) fn look_again(&self, number: AgendaKey) {
        self.shared.schedule(number, Instant::START);
    }

    /// Puts a holding at the moment that its rules name, which an event has changed.
    pub(crate) fn reschedule(&self, number: AgendaKey, holding: &Holding) {
        let at = holding.wake_at();
        let mut agenda = self.shared.agenda.lock();
        agenda.schedule(number, at);
        let is_sooner = agenda.wakes_at.is_some_and(|wakes_at| at < wakes_at);
        drop(agenda);
        if is_sooner {
            self.shared.sooner.notify_one();
        }
    }
}

impl Inner {
    fn schedule(&self, number: AgendaKey, at: Instant) {
        self.agenda.lock().schedule(number, at);
        self.sooner.notify_one();
    }

    async fn work(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let (due, wake_at) = self.collect(self.runner.clock().now());
            for batch in batches(due, self.runner.clock().now()) {
                self.runner.spawn(Arc::clone(&self).renew(batch));
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.sooner.notified() => {}
                () = self.runner.clock().sleep_until(wake_at) => {}
            }
        }
    }

    /// Takes what is due from the agenda. Returns also when the task has to look again.
    fn collect(&self, now: Instant) -> (Vec<Due>, Instant) {
        let mut agenda = self.agenda.lock();
        let due = agenda.collect(now);
        let wake_at = agenda.times.first().map_or(Instant::FAR_FUTURE, |&(at, _)| at);
        agenda.wakes_at = Some(wake_at);
        (due, wake_at)
    }

    /// Renews a batch, and reports the result to each of its leases.
    async fn renew(self: Arc<Self>, batch: Batch) {
        let applied = self.send(&batch).await;
        if let Ok(Applied::Confirmed(reply) | Applied::Unconfirmed(reply, _)) = &applied
            && reply.matched == batch.documents()
            && batch.is_blocked
        {
            self.tell_document(&batch, HoldEvent::DocumentWritten(reply.sent));
            batch.names().for_each(|name| {
                self.blocked.note(name, false);
                self.blocked_log.written(name);
            });
        }
        match applied {
            Ok(Applied::Unconfirmed(reply, why)) => self.confirm(batch, reply.sent, why).await,
            Ok(Applied::Confirmed(reply)) if reply.matched == batch.documents() => {
                self.note(batch.members.iter().map(|it| renewed(it, reply.sent)).collect());
            }
            Ok(Applied::Confirmed(reply)) => self.sort_out(&batch, reply).await,
            Err(failure) if failure.is_blocked() => match batch.pieces() {
                Ok(pieces) => {
                    for piece in pieces {
                        self.runner.spawn(Arc::clone(&self).renew_boxed(piece));
                    }
                }
                Err(batch) => {
                    // A transaction blocks this document. From now on the other leases are renewed without it.
                    self.tell_document(&batch, HoldEvent::Guarded);
                    batch.names().for_each(|name| self.blocked.found(name));
                    let waited = self.runner.clock().now().since(batch.planned_at);
                    batch.names().take(1).for_each(|name| self.blocked_log.cut_off(name, waited));
                    self.all_failed(&batch, failure);
                }
            },
            Err(failure) => self.all_failed(&batch, failure),
        }
    }

    /// Waits until a majority has the renewals of a batch, which were sent at `sent`, for as long as one of them is
    /// worth it: until then the leases are valid for as long as they were.
    async fn confirm(self: Arc<Self>, mut batch: Batch, sent: Instant, why: Unconfirmed) {
        batch.planned_at = sent;
        let applied = |(number, holding): &NumberedHolding| {
            (*number, holding.on(HoldEvent::Applied(sent), None))
        };
        self.note(batch.members.iter().map(applied).collect());
        let trace =
            |(_, holding): &NumberedHolding| Trace::Prolonged(GrantKey::clone(&holding.key), sent);
        let traces = batch.members.iter().map(trace).collect();
        let ends = batch.members.iter().map(|(_, it)| sent.after(it.timing.validity()));
        let deadline = ends.max().unwrap_or(sent);
        let shown = self.runner.shown(traces, why, sent, deadline);
        let shown = tokio::select! {
            biased;
            // The leases are released.
            () = self.closing.cancelled() => return,
            shown = shown => shown,
        };
        match shown {
            Ok(found) => {
                let now = self.runner.clock().now();
                self.note_shown(&batch, found, &WrittenBy::this_or_later(sent, now));
            }
            Err(failure) => self.all_failed(&batch, failure),
        }
    }

    /// Notes what a majority read has shown of a batch's leases.
    fn note_shown(self: &Arc<Self>, batch: &Batch, found: Vec<SharedSnapshot>, by: &WrittenBy) {
        if !batch.is_shared {
            let found: Vec<LeaseSnapshot> = found.into_iter().map(|found| found.lease).collect();
            return self.note(after_look(batch, &found, by));
        }
        let (outcomes, again) = after_look_at_holders(batch, &found, by);
        if !again.is_empty() {
            // With fewer leases each time, so this comes to an end.
            self.runner.spawn(Arc::clone(self).renew_boxed(batch.of(again)));
        }
        self.note(outcomes);
    }

    /// Tells all leases in the document of this batch what became of a write to it.
    fn tell_document(&self, batch: &Batch, event: HoldEvent) {
        let name = batch.names().next();
        let is_in_it = |holding: &&Arc<Holding>| Some(holding.key.name()) == name;
        let all: Vec<Arc<Holding>> = {
            let agenda = self.agenda.lock();
            agenda.holdings.values().map(|place| &place.holding).filter(is_in_it).cloned().collect()
        };
        for holding in all {
            // A loss is reported at once, and the next timer takes it off the agenda.
            let _ = holding.on(event, None);
        }
    }

    async fn send(&self, batch: &Batch) -> AppliedResult<Matched> {
        let policy = batch.policy(self.runner.clock().now());
        let grants = batch.members.iter().map(|(_, holding)| holding.renewal_target()).collect();
        let (runner, is_blocked) = (&self.runner, batch.is_blocked);
        match batch.is_shared {
            false => retry::run_batch(runner, RenewMany { grants }, policy, is_blocked).await,
            true => retry::run_batch(runner, RenewHolders { grants }, policy, is_blocked).await,
        }
    }

    /// [`Inner::renew`], boxed, because a future cannot contain itself.
    fn renew_boxed(self: Arc<Self>, batch: Batch) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.renew(batch))
    }

    /// Finds out which leases of a batch did not match, and who holds them.
    async fn sort_out(self: &Arc<Self>, batch: &Batch, renewed_by: Matched) {
        let policy = batch.policy(self.runner.clock().now());
        let look = FindHolders { grants: batch.keys() };
        match retry::run(&self.runner, look, policy).await {
            Ok(seen) => self.note_shown(batch, seen.reply, &WrittenBy::this(renewed_by.sent)),
            Err(failure) => self.all_failed(batch, failure),
        }
    }

    fn all_failed(&self, batch: &Batch, failure: Failure) {
        if is_made(Mistake::RenewalForgotten) {
            let mut agenda = self.agenda.lock();
            batch.members.iter().for_each(|(number, _)| drop(agenda.remove(*number)));
            return;
        }
        let is_logged = !failure.is_blocked();
        let is_refused = failure.outcome.advice == Advice::Stop;
        let reason = Error::from(failure).to_string();
        if is_logged && let Some(name) = batch.names().next() {
            telemetry::renewal_failed(batch.members.len(), name, &reason);
        }
        // One delay for all, so that they stay together.
        let retry_after = batch.retry_after(is_refused);
        let outcome = |member| failed(member, batch.planned_at, &reason, retry_after);
        self.note(batch.members.iter().map(outcome).collect());
    }

    /// Puts the results of the rules on the agenda. All in one step, so that the task wakes once.
    fn note(&self, outcomes: Vec<(AgendaKey, HoldAction)>) {
        let mut agenda = self.agenda.lock();
        for (number, next) in outcomes {
            match next {
                HoldAction::WakeAt(at) => agenda.schedule(number, at),
                HoldAction::Renew { .. } | HoldAction::Lost(_) | HoldAction::Nothing => {
                    drop(agenda.remove(number));
                }
            }
        }
        drop(agenda);
        self.sooner.notify_one();
    }
}
