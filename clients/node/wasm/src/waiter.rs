//! The next action of a call that waits in the queue.

use mongo_lease_core::rules::{WaitAction, WaitEvent, WaitRefusal, Waiter as Rules};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{duration, instant, micros, millis};
use crate::event::Promotion;
use crate::reply::Reply;
use crate::request::Request;

/// A call that waits.
#[wasm_bindgen]
pub struct Waiter {
    rules: Rules,
    request: Request,
    wake_at: f64,
    term: f64,
}

/// What to do now.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum WaitStep {
    /// Send an attempt.
    Acquire,
    /// Wait until `wakeAt`.
    Wait,
    /// Accept the promotion, which lasts for `term`.
    TakePromotion,
    /// Its time is over.
    GiveUp,
}

impl Waiter {
    fn on(&mut self, now: f64, event: WaitEvent) -> WaitStep {
        let timing = &self.request.request.timing;
        match self.rules.on(timing, instant(now), event) {
            WaitAction::Acquire => WaitStep::Acquire,
            WaitAction::GiveUp => WaitStep::GiveUp,
            WaitAction::WakeAt(at) => {
                self.wake_at = micros(at);
                WaitStep::Wait
            }
            WaitAction::TakePromotion(term) => {
                self.term = millis(term);
                WaitStep::TakePromotion
            }
        }
    }
}

#[wasm_bindgen]
impl Waiter {
    /// A call that sends its first attempt at once.
    #[wasm_bindgen(constructor)]
    pub fn new(request: &Request, deadline: f64, waiter_ttl: f64) -> Waiter {
        let rules = Rules::new(instant(deadline), duration(waiter_ttl));
        Waiter { rules, request: request.clone(), wake_at: 0.0, term: 0.0 }
    }

    /// The call that inherits the queue entry of one that has given up.
    pub fn inherit(&mut self, from: &Waiter, deadline: f64) {
        self.rules = from.rules.with_deadline(instant(deadline));
    }

    /// The moment until which `Wait` says to wait.
    #[wasm_bindgen(js_name = wakeAt)]
    pub fn wake_at(&self) -> f64 {
        self.wake_at
    }

    /// How long the promotion lasts that `TakePromotion` says to accept.
    pub fn term(&self) -> f64 {
        self.term
    }

    /// Time has passed.
    #[wasm_bindgen(js_name = onTimer)]
    pub fn on_timer(&mut self, now: f64) -> WaitStep {
        self.on(now, WaitEvent::Timer)
    }

    /// A change needs an attempt.
    #[wasm_bindgen(js_name = onRecheck)]
    pub fn on_recheck(&mut self, now: f64) -> WaitStep {
        self.on(now, WaitEvent::Recheck)
    }

    /// From now on this call rechecks for all of its process, after `recheck_every` milliseconds at the latest.
    #[wasm_bindgen(js_name = onLeads)]
    pub fn on_leads(&mut self, now: f64, recheck_every: f64) -> WaitStep {
        self.on(now, WaitEvent::Leads(duration(recheck_every)))
    }

    /// A change event says that the waiter was promoted.
    #[wasm_bindgen(js_name = onPromoted)]
    pub fn on_promoted(&mut self, now: f64, promotion: &Promotion) -> WaitStep {
        let (sent, expires_at) = (promotion.0.sent, promotion.0.expires_at);
        let expires_at_ms = expires_at.map(|at| at.timestamp_millis());
        self.on(now, WaitEvent::Promoted { sent, expires_at_ms })
    }

    /// The server has refused an attempt. `poll` and `recheck_every` are in milliseconds, with jitter.
    #[wasm_bindgen(js_name = onRefused)]
    pub fn on_refused(
        &mut self,
        now: f64,
        reply: &Reply,
        led_by: u32,
        is_notified: bool,
        poll: f64,
        recheck_every: f64,
    ) -> WaitStep {
        let Some(refused) = reply.refused() else { return self.on_recheck(now) };
        let refusal = WaitRefusal {
            sent: refused.sent,
            server_ms: refused.server_ms,
            ahead: refused.ahead.unwrap_or(0),
            led_by,
            remaining: refused.info.remaining,
            is_notified,
            poll: duration(poll),
            recheck_every: duration(recheck_every),
        };
        self.on(now, WaitEvent::Refused(refusal))
    }
}
