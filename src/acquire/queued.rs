//! An acquire call that waits: first in its process's local queue, then in the queue of the lease document.
//!
//! `rules::waiter` decides what the call does next; this module carries it out.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{AcquireRequest, Promotion, Refused};
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{Instant, POLL, WaitAction, WaitEvent, WaitRefusal, Waiter};

use crate::acquire::call::AcquireCall;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::telemetry::Event;
use crate::token::Token;
use crate::wait::local_queue::{InheritedEntry, Ticket};
use crate::wait::waiters::{Signal, WaiterGuard};

/// A call that waits in the queue. Dropping it gives up.
pub(crate) struct QueuedCall {
    call: AcquireCall,
    deadline: Instant,
    waiter: Waiter,
    /// The call's registration: promotions and rechecks arrive there.
    slot: Option<WaiterGuard>,
    /// The queue entry of the previous local waiter, until this call has taken it over.
    inherited: Option<InheritedEntry>,
    /// The lease as the server last described it to this call.
    held: Option<Arc<LeaseInfo>>,
    /// Whether another call of this process rechecks the lease for this one.
    is_led: bool,
    /// The place in the local queue. Given up last.
    ticket: Ticket,
}

/// The outcome of an acquire within the wait.
enum AcquireOutcome {
    Granted(Lease),
    Refused(Box<Refused>),
    /// It was promoted while an attempt was under way.
    Promoted(Promotion),
}

/// The end of a wait before its time.
enum WokenBy {
    Signal(Signal),
    /// No call of this process is before this one any more.
    Leads,
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        let waiter = self.waiter;
        if !self.ticket.has_turn() {
            // It never had its turn, or has lost it: then its entries are given up already.
            return;
        }
        // A call that has sent no attempt has only the entry that it inherited. A call that has sent one has an entry
        // of its own, if any.
        let inherited = match (self.inherited.take(), self.slot.take()) {
            (Some(mut inherited), _) if !self.call.cleanup.has_started() => {
                inherited.waiter = waiter;
                Some(inherited)
            }
            // Several calls for permits have entries of their own. One that gives up leaves the queue.
            (_, Some(slot))
                if self.call.permits().is_exclusive() && slot.call().has_only_an_entry() =>
            {
                self.call.is_passed_on = true;
                Some(InheritedEntry { slot, waiter })
            }
            (_, _) => None,
        };
        if let Some(inherited) = inherited {
            self.ticket.pass_on(inherited);
        }
    }
}

impl QueuedCall {
    pub(crate) fn new(call: AcquireCall, deadline: Instant) -> QueuedCall {
        let ticket = call.engine.local_queues.join(&call.request.name, call.permits());
        let waiter = Waiter::new(deadline, call.engine.options.tuning.waiter_ttl);
        let (slot, inherited, held) = (None, None, None);
        QueuedCall { call, deadline, waiter, slot, inherited, held, is_led: false, ticket }
    }

    /// Waits until the lease is granted, or the deadline comes.
    pub(crate) async fn wait(&mut self) -> Result<Lease> {
        loop {
            let turn = self.ticket.turn();
            let Some((turn, inherited)) =
                self.call.engine.clock().before(self.deadline, turn).await
            else {
                return Err(self.timeout(None));
            };
            if let Some(inherited) = inherited {
                inherited.slot.set_deadline(self.deadline);
                self.waiter = inherited.waiter.with_deadline(self.deadline);
                self.inherited = Some(inherited);
            }
            let call = Arc::clone(&self.call.cleanup);
            let inherited = self.inherited.as_ref().map(|it| Arc::clone(it.slot.call()));
            self.ticket.answers_for([Arc::clone(&call)].into_iter().chain(inherited));
            self.slot = Some(self.call.engine.waiters.register(call, self.deadline));
            if let Some(ended) = turn.run(self.until_granted()).await {
                return ended;
            }
            self.begin_anew()?;
        }
    }

    /// Makes a new call of one that has lost its turn: the old one's entries and grants are given up.
    fn begin_anew(&mut self) -> Result<()> {
        (self.slot, self.inherited, self.held, self.is_led) = (None, None, None, false);
        self.waiter = Waiter::new(self.deadline, self.call.engine.options.tuning.waiter_ttl);
        let old = &self.call;
        let mut request = AcquireRequest::clone(&old.request);
        let has_own_value = request.value != request.call_id.as_str();
        request.call_id = old.engine.id.call(&old.engine.clock().random_hex::<16>()?);
        if !has_own_value {
            request.value = request.call_id.to_string();
        }
        let (engine, request) = (Arc::clone(&old.engine), Arc::new(request));
        let (options, hold_at_least) = (old.hold_options, old.hold_at_least);
        let mut call = AcquireCall::new(engine, request, options, hold_at_least);
        call.started = old.started;
        self.call = call;
        Ok(())
    }

    async fn until_granted(&mut self) -> Result<Lease> {
        // Made at the first refusal, as most calls are granted the lease before one.
        let mut delays = None;
        let mut event = WaitEvent::Timer;
        let mut promotion = None;
        loop {
            let clock = self.call.engine.clock();
            self.waiter.expect_majority_after(self.call.engine.runner.majority_delay());
            event = match self.waiter.on(&self.call.request.timing, clock.now(), event) {
                WaitAction::GiveUp => return Err(self.timeout(None)),
                WaitAction::WakeAt(at) => match clock.before(at, self.woken_by()).await {
                    Some(WokenBy::Signal(Signal::Recheck)) => WaitEvent::Recheck,
                    Some(WokenBy::Signal(Signal::Promoted(event))) => {
                        promoted(event, &mut promotion)
                    }
                    Some(WokenBy::Leads) => self.leads(),
                    None => WaitEvent::Timer,
                },
                WaitAction::TakePromotion(term) => {
                    let lease =
                        promotion.take().and_then(|it| self.call.accept_promotion(it, term));
                    if let Some(lease) = lease {
                        return Ok(lease);
                    }
                    WaitEvent::Recheck
                }
                WaitAction::Acquire => match Box::pin(self.acquire()).await? {
                    AcquireOutcome::Granted(lease) => return Ok(lease),
                    AcquireOutcome::Refused(refused) => {
                        let delays = delays.get_or_insert_with(|| {
                            Box::new(self.call.engine.clock().jittered(POLL))
                        });
                        let poll = delays.next().unwrap_or(POLL.longest);
                        self.refused(*refused, poll)?
                    }
                    AcquireOutcome::Promoted(event) => promoted(event, &mut promotion),
                },
            };
        }
    }

    /// Sends attempts until one is answered. The caller boxes its large future, so that a call that waits has no room
    /// for it.
    async fn acquire(&mut self) -> Result<AcquireOutcome> {
        let Some(slot) = &self.slot else {
            return Err(self.timeout(None));
        };
        slot.clear_recheck();
        let predecessor =
            self.inherited.as_ref().map(|inherited| inherited.slot.call().request.value.clone());
        let answer = self.call.until_answered(self.deadline, predecessor.as_deref());
        let clock = self.call.engine.clock();
        let answer = tokio::select! {
            biased;
            answer = clock.before(self.deadline, answer) => answer,
            event = slot.promotion() => return Ok(AcquireOutcome::Promoted(event)),
        };
        match answer {
            Some(Ok(answer)) => {
                // Granted or refused: the server has put this call into the inherited entry's place.
                if let Some(inherited) = self.inherited.take() {
                    inherited.confirm();
                }
                Ok(match answer {
                    Ok(lease) => AcquireOutcome::Granted(lease),
                    Err(refused) => AcquireOutcome::Refused(refused),
                })
            }
            // The database did not answer in time: more time could have helped.
            Some(Err(error @ (Error::MongoDb(_) | Error::Unknown { .. })))
                if clock.now() >= self.deadline =>
            {
                Err(self.timeout(Some(error)))
            }
            Some(Err(error)) => Err(error),
            None => Err(self.timeout(None)),
        }
    }

    /// Notes what the server said when it refused.
    fn refused(&mut self, refused: Refused, poll: Duration) -> Result<WaitEvent> {
        let engine = &self.call.engine;
        let Refused { sent, info, ahead, at, server_ms } = refused;
        let (Some(ahead), Some(slot)) = (ahead, &self.slot) else {
            return Err(Error::QueueFull { name: info.name, waiting: info.waiting });
        };
        // Before the query of the stream's state: when the stream ends, only calls marked as queued are notified.
        slot.joined_queue(sent, at.map(Token::from));
        if self.held.is_none() {
            engine.events.report(Event::Queued { name: info.name.clone(), ahead });
        }
        // A release by another program sends no notification.
        let is_notified = (info.owner.is_some() || info.shared) && engine.waiters.has_stream();
        let remaining = info.remaining;
        let led_by = self.ticket.led_by();
        self.is_led = led_by > 0;
        let info = Arc::new(info);
        self.ticket.record(Arc::clone(&info));
        self.held = Some(info);
        Ok(WaitEvent::Refused(WaitRefusal {
            sent,
            server_ms,
            ahead,
            led_by,
            remaining,
            is_notified,
            poll,
            recheck_every: engine.clock().about(engine.options.tuning.recheck_every),
        }))
    }

    /// From now on this call rechecks the lease for all of its process.
    fn leads(&mut self) -> WaitEvent {
        self.is_led = false;
        let engine = &self.call.engine;
        WaitEvent::Leads(engine.clock().about(engine.options.tuning.recheck_every))
    }

    /// Waits for a signal, or until this call leads.
    async fn woken_by(&self) -> WokenBy {
        let leads = async {
            match self.is_led {
                // Boxed, so that other calls keep no room for it.
                true => Box::pin(self.ticket.leads()).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = self.signal() => WokenBy::Signal(signal),
            () = leads => WokenBy::Leads,
        }
    }

    /// Waits for a signal to this call or to the entry that it inherited.
    async fn signal(&self) -> Signal {
        let own = async {
            match &self.slot {
                Some(slot) => slot.signal().await,
                None => std::future::pending().await,
            }
        };
        let inherited = async {
            match &self.inherited {
                // This call takes a grant of the inherited entry over with an attempt of its own.
                Some(inherited) => drop(inherited.slot.signal().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // A promotion of its own is worth more than an attempt.
            biased;
            signal = own => signal,
            () = inherited => Signal::Recheck,
        }
    }

    fn timeout(&self, source: Option<Error>) -> Error {
        let held = self.held.clone().or_else(|| self.ticket.last_seen());
        let held = held.map(|held| Box::new(Arc::unwrap_or_clone(held)));
        let waited = self.call.engine.clock().now().since(self.call.started);
        let (name, source) = (self.call.request.name.clone(), source.map(Box::new));
        Error::WaitTimeout { name, waited, waited_for_turn: !self.ticket.has_turn(), held, source }
    }
}

fn promoted(event: Promotion, kept: &mut Option<Promotion>) -> WaitEvent {
    let sent = event.sent;
    let expires_at_ms = event.expires_at.map(|at| at.timestamp_millis());
    *kept = Some(event);
    WaitEvent::Promoted { sent, expires_at_ms }
}
