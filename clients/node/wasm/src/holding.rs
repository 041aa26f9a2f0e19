//! One held lease.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{
    Form, GrantKey, GrantMatch, ReleaseTarget, RenewalTarget, StandaloneToken,
};
use mongo_lease_core::rules::{GrantId, HoldAction, HoldEvent, Holder, Instant, Permits, Timing};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::convert::{date, date_ms, duration, instant, micros, millis};
use crate::error::{Error, LostReason};
use crate::event::Promotion;
use crate::failed::{Fault, reason_word};
use crate::loss::reason;
use crate::release::Target;
use crate::reply::Reply;
use crate::request::Request;

/// One lease that is or was held.
#[wasm_bindgen]
pub struct Holding {
    pub(crate) key: Arc<GrantKey>,
    pub(crate) permits: Permits,
    pub(crate) timing: Arc<Timing>,
    pub(crate) holder: Holder,
    /// How long the name stays taken at least, counted from the grant, and when we heard of the grant.
    hold_at_least: Option<(Duration, Instant)>,
    /// When it was granted, by the server's clock.
    acquired_at_ms: Option<i64>,
    /// Another call with the same value had been granted the lease before.
    is_again: bool,
    /// Why it has ended.
    reason: Option<LostReason>,
}

/// What to do with a holding now.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum HoldStep {
    /// Look again at `wakeAt`.
    Wait,
    /// Renew it.
    Renew,
    /// Renew it in a command of its own.
    RenewAlone,
    /// It is lost now: report it.
    Lost,
    /// Nothing more.
    Nothing,
}

impl Holding {
    /// Applies an event. `found` is the reason that the server's document shows.
    pub(crate) fn on(
        &mut self,
        now: Instant,
        event: HoldEvent,
        found: Option<LostReason>,
    ) -> HoldStep {
        match self.holder.on(&self.timing, now, event) {
            HoldAction::WakeAt(_) => HoldStep::Wait,
            HoldAction::Renew { alone: false } => HoldStep::Renew,
            HoldAction::Renew { alone: true } => HoldStep::RenewAlone,
            HoldAction::Nothing => HoldStep::Nothing,
            HoldAction::Lost(loss) => {
                if self.reason.is_some() {
                    return HoldStep::Nothing;
                }
                self.reason = Some(reason(loss, found, now));
                HoldStep::Lost
            }
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.reason.is_some()
    }

    pub(crate) fn target(&self) -> RenewalTarget {
        let lasts = self.timing.ttl + self.timing.max_clock_skew;
        RenewalTarget { key: Arc::clone(&self.key), lasts }
    }

    pub(crate) fn new(key: GrantKey, timing: &Arc<Timing>, holder: Holder) -> Holding {
        Holding {
            key: Arc::new(key),
            permits: Permits::EXCLUSIVE,
            timing: Arc::clone(timing),
            holder,
            hold_at_least: None,
            acquired_at_ms: None,
            is_again: false,
            reason: None,
        }
    }

    /// The holding of a call, which hears of its grant now.
    fn of(request: &Request, grant_id: &GrantId, holder: Holder, now: Instant) -> Holding {
        let Request { request, hold_at_least, .. } = request;
        let key = GrantKey::new(&request.name, &request.value, grant_id);
        Holding {
            hold_at_least: hold_at_least.map(|shortest| (shortest, now)),
            is_again: request.value != request.call_id.as_str() && !request.call_id.has(grant_id),
            permits: request.permits,
            ..Holding::new(key, &request.timing, holder)
        }
    }

    /// The minimum hold time, counted from the grant; `None` when it has certainly passed.
    fn left_to_hold(&self, now: Instant) -> Option<Duration> {
        // The grant was earlier than its reply, so this may be `Some` a little too long. Then the server decides.
        let (shortest, heard) = self.hold_at_least?;
        (now < heard.after(shortest)).then_some(shortest)
    }
}

#[wasm_bindgen]
impl Holding {
    /// The lease that this reply, which arrives now, has granted.
    pub fn granted(request: &Request, reply: &Reply, now: f64) -> Option<Holding> {
        let granted = reply.granted()?;
        let (permits, _) = granted.terms(request.request.permits);
        let holder = Holder::granted(&request.request.timing, request.hold, granted.sent);
        let acquired_at = granted.info.acquired_at;
        Some(Holding {
            permits,
            acquired_at_ms: acquired_at.map(|at| at.timestamp_millis()),
            ..Holding::of(request, &granted.grant_id, holder, instant(now))
        })
    }

    /// The lease of a promotion, for `term` milliseconds at first.
    pub fn promoted(request: &Request, promotion: &Promotion, term: f64, now: f64) -> Holding {
        let (told, timing) = (&promotion.0, &request.request.timing);
        let (now, term) = (instant(now), duration(term));
        let holder = Holder::promoted(timing, request.hold, now, told.sent, term);
        Holding::of(request, &told.grant_id, holder, now)
    }

    /// Whether a reply shows that this holder is alone, with an empty queue.
    #[wasm_bindgen(js_name = isAlone)]
    pub fn is_alone(&self, reply: &Reply) -> bool {
        let info = reply.granted().map(|granted| &granted.info);
        info.is_some_and(|info| {
            let only = self.permits.is_exclusive() || info.in_use == Some(self.permits.count());
            only && info.waiting == 0
        })
    }

    /// The lease's name.
    pub fn name(&self) -> String {
        self.key.name().to_owned()
    }

    /// The holder's value.
    pub fn value(&self) -> String {
        self.key.value().to_owned()
    }

    /// The id of the grant.
    #[wasm_bindgen(js_name = grantId)]
    pub fn grant_id(&self) -> String {
        self.key.grant_id().to_owned()
    }

    /// How many permits it has.
    pub fn permits(&self) -> u32 {
        self.permits.count()
    }

    /// Whether others may hold the name too.
    #[wasm_bindgen(js_name = isShared)]
    pub fn is_shared(&self) -> bool {
        !self.permits.is_exclusive()
    }

    /// Whether another call with the same value, which its user chose, had been granted the lease before: both are one
    /// holder.
    #[wasm_bindgen(js_name = isAgain)]
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// When it was granted, in milliseconds of the server's clock; `undefined` for a promotion.
    #[wasm_bindgen(js_name = acquiredAt)]
    pub fn acquired_at(&self) -> Option<f64> {
        self.acquired_at_ms.map(date)
    }

    /// The name stays taken until this date of the server's clock at least, also after an earlier release.
    #[wasm_bindgen(js_name = holdUntil)]
    pub fn hold_until(&mut self, until_ms: f64, now: f64) {
        let Some(acquired_at) = self.acquired_at_ms else { return };
        let whole = u64::try_from(date_ms(until_ms) - acquired_at).unwrap_or(0);
        let (asked, heard) = self.hold_at_least.unwrap_or((Duration::ZERO, instant(now)));
        self.hold_at_least = Some((Duration::from_millis(whole).max(asked), heard));
    }

    /// Whether the holder may rely on the lease now.
    #[wasm_bindgen(js_name = isValid)]
    pub fn is_valid(&self, now: f64) -> bool {
        !self.has_ended() && self.holder.is_valid(instant(now))
    }

    /// How long the holder may still rely on the lease, in milliseconds.
    pub fn remaining(&self, now: f64) -> f64 {
        let at = instant(now);
        if self.is_valid(now) { millis(self.holder.valid_until().since(at)) } else { 0.0 }
    }

    /// The end of what the server has granted.
    #[wasm_bindgen(js_name = renewedUntil)]
    pub fn renewed_until(&self) -> f64 {
        micros(self.holder.renewed_until())
    }

    /// When the rules must be called next. A renewal is due `lag` milliseconds later, by when its command can be sent.
    #[wasm_bindgen(js_name = wakeAt)]
    pub fn wake_at(&self, lag: f64) -> f64 {
        let (at, end) = (self.holder.wake_at(&self.timing), self.holder.valid_until());
        micros(if at < end { at.after(duration(lag)).min(end) } else { at })
    }

    /// How much earlier a renewal may be sent, to share a command with others.
    #[wasm_bindgen(js_name = renewSlack)]
    pub fn renew_slack(&self) -> f64 {
        millis(self.timing.renew_slack)
    }

    /// The time limit of a bulk renewal.
    #[wasm_bindgen(js_name = bulkDeadline)]
    pub fn bulk_deadline(&self) -> f64 {
        millis(self.timing.bulk_deadline())
    }

    /// How long an attempt may take.
    #[wasm_bindgen(js_name = attemptTimeout)]
    pub fn attempt_timeout(&self) -> f64 {
        millis(self.timing.attempt_timeout)
    }

    /// Time has passed: it is not after `now`, and a command that is sent from here on not before `sent`.
    ///
    /// The rules note when a renewal is planned, and it must not be later than its command is sent: otherwise no answer
    /// would count as the answer to it.
    #[wasm_bindgen(js_name = onTimer)]
    pub fn on_timer(&mut self, now: f64, sent: f64) -> HoldStep {
        let is_valid = self.holder.is_valid(instant(now));
        self.on(instant(if is_valid { sent } else { now }), HoldEvent::Timer, None)
    }

    /// A renewal that was sent at `sent` is confirmed.
    #[wasm_bindgen(js_name = onRenewed)]
    pub fn on_renewed(&mut self, now: f64, sent: f64) -> HoldStep {
        self.on(instant(now), HoldEvent::Renewed(instant(sent)), None)
    }

    /// A renewal that was planned at `sent` is not confirmed. `jitter` is between 0 and 1.
    #[wasm_bindgen(js_name = onFailed)]
    pub fn on_failed(&mut self, now: f64, sent: f64, jitter: f64) -> HoldStep {
        let retry_after = (self.timing.renew_after / 20).mul_f64(1.0 + jitter.clamp(0.0, 1.0));
        let event = HoldEvent::RenewalFailed { sent: instant(sent), retry_after };
        self.on(instant(now), event, None)
    }

    /// The caller's transaction writes to the document, or another one blocks it.
    #[wasm_bindgen(js_name = onGuarded)]
    pub fn on_guarded(&mut self, now: f64) -> HoldStep {
        self.on(instant(now), HoldEvent::Guarded, None)
    }

    /// A write to the document, sent at `sent`, was confirmed.
    #[wasm_bindgen(js_name = onDocumentWritten)]
    pub fn on_document_written(&mut self, now: f64, sent: f64) -> HoldStep {
        self.on(instant(now), HoldEvent::DocumentWritten(instant(sent)), None)
    }

    /// Ends the lease at its holder's wish. Returns false if it had already ended.
    pub fn end(&mut self) -> bool {
        let is_first = self.reason.is_none();
        self.reason.get_or_insert(LostReason::Released);
        is_first
    }

    /// Why it has ended, as an error.
    pub fn lost(&self) -> Option<Fault> {
        let reason = self.reason.clone()?;
        Some(Error::Lost { name: self.name(), reason }.into())
    }

    /// Why it has ended, as one word.
    #[wasm_bindgen(js_name = endedBy)]
    pub fn ended_by(&self) -> Option<String> {
        self.reason.as_ref().map(|reason| reason_word(reason).to_owned())
    }

    /// The target of its release, which begins now.
    #[wasm_bindgen(js_name = toRelease)]
    pub fn to_release(&self, now: f64) -> Target {
        let target = ReleaseTarget {
            name: self.name(),
            value: self.value(),
            grant: GrantMatch::Grant(self.key.grant_id().into()),
            form: Form::of(self.permits),
        };
        Target { target, hold_at_least: self.left_to_hold(instant(now)) }
    }

    /// The error of a leader that has to stop: the reason with which the lease ends unless it is renewed.
    #[wasm_bindgen(js_name = endError)]
    pub fn end_error(&self, now: f64) -> Fault {
        let now = instant(now);
        let loss = self.holder.reason_for_end(&self.timing, now);
        let reason = self.reason.clone().unwrap_or_else(|| reason(loss, None, now));
        Error::Lost { name: self.name(), reason }.into()
    }

    /// Gets a token from a server without an oplog.
    #[wasm_bindgen(js_name = standaloneToken)]
    pub fn standalone_token(&self) -> Command {
        Command::of(StandaloneToken { key: GrantKey::clone(&self.key) })
    }
}
