//! An acquire call in progress: its attempts, and the grant that they bring.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use mongo_lease_core::commands::{
    AcquireReply, AcquireRequest, FastAcquire, FastAdmit, GrantKey, Granted, Promotion, Refused,
    SlowAcquire, StandaloneToken,
};
use mongo_lease_core::info::LeaseState;
use mongo_lease_core::rules::{Accepted, Advice, Effect, GrantId, HoldOptions, Instant, Permits};
use mongodb::bson::Timestamp;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::failure::UNANSWERED;
use crate::hold::Grant;
use crate::lease::Lease;
use crate::release::ReleaseHint;
use crate::release::call_state::CallState;
use crate::retry::{self, RetryPolicy, StartedAttempts};
use crate::runner::{AttemptResult, AttemptTime, Pending};
use crate::telemetry;
use crate::token::Token;

/// An acquire call in progress. Dropping it abandons the call: every grant that it has, or may yet get, is released.
pub(crate) struct AcquireCall {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) cleanup: Arc<CallState>,
    pub(crate) hold_options: HoldOptions,
    pub(crate) hold_at_least: Option<Duration>,
    pub(crate) started: Instant,
    /// Another owner has taken over the cleanup of this call.
    pub(crate) is_passed_on: bool,
}

impl Drop for AcquireCall {
    fn drop(&mut self) {
        // Does nothing when the grant was accepted: then the lease continues the call.
        if !self.is_passed_on {
            self.cleanup.abandon();
        }
    }
}

impl AcquireCall {
    /// A call that has sent nothing yet.
    pub(crate) fn new(
        engine: Arc<Engine>,
        request: Arc<AcquireRequest>,
        hold_options: HoldOptions,
        hold_at_least: Option<Duration>,
    ) -> AcquireCall {
        let cleanup =
            CallState::new(Arc::clone(&request), engine.background.clone(), engine.closing.clone());
        let (started, is_passed_on) = (engine.clock().now(), false);
        AcquireCall { engine, request, cleanup, hold_options, hold_at_least, started, is_passed_on }
    }

    pub(crate) fn permits(&self) -> Permits {
        self.request.permits
    }

    /// Sends attempts until the server grants the lease or refuses it.
    pub(crate) async fn until_answered(
        &self,
        deadline: Instant,
        predecessor: Option<&str>,
    ) -> Result<Result<Lease, Box<Refused>>> {
        let mut has_checked_indexes = false;
        let mut is_unanswered = !self.cleanup.has_started();
        let mut started = StartedAttempts::new();
        let attempt_timeout = self.request.timing.attempt_timeout;
        if predecessor.is_none() && !self.cleanup.has_started() {
            // Leases that the caller dropped before this call are released before its first attempt. The wait for that
            // is bounded by one attempt's deadline; after it the attempt goes out whatever became of the release.
            let longest = self.engine.clock().now().after(attempt_timeout).min(deadline);
            let given_back = self.engine.pending_releases.ended(&self.request.name);
            let _ = self.engine.clock().before(longest, given_back).await;
        }
        loop {
            self.engine.check_open()?;
            let policy = RetryPolicy { attempt_timeout, deadline };
            let start_attempt = |time| self.start_attempt(is_unanswered, predecessor, time);
            let (clock, started) = (self.engine.clock(), &mut started);
            let answering =
                retry::until_one_is_answered(started, clock, policy, start_attempt, |_| false);
            let answer = answering.await;
            is_unanswered = false;
            match answer {
                Ok(answer) => match answer.reply {
                    // The next attempt is a slow acquire, because this call has already sent one attempt.
                    AcquireReply::UseSlowForm { .. } => {
                        if self.permits().is_exclusive() {
                            self.engine.hints.found_a_document();
                        }
                        self.engine.hints.contended.found(&self.request.name);
                    }
                    AcquireReply::Granted(granted) => {
                        let is_contended = granted.info.waiting > 0;
                        self.engine.hints.contended.note(&self.request.name, is_contended);
                        if let Some(lease) = self.accept(granted, policy).await? {
                            return Ok(Ok(lease));
                        }
                        // The answer came too late to be a valid grant. The server still holds the lease for this call:
                        // send another attempt.
                        if self.engine.clock().now() >= deadline {
                            return Err(UNANSWERED.into());
                        }
                    }
                    AcquireReply::Refused(mut refused) => {
                        self.engine.recognize(&mut refused.info);
                        let info = &refused.info;
                        let smaller_limit = info.limit_below(self.permits().limit());
                        telemetry::refused(&info.name, info.owner.as_deref(), smaller_limit);
                        self.engine.hints.contended.found(&self.request.name);
                        // Such a lease is never granted.
                        if let LeaseState::Damaged { found } = &info.state {
                            return Err(Error::damaged(&info.name, found.clone()));
                        }
                        return Ok(Err(Box::new(refused)));
                    }
                },
                Err(failure)
                    if failure.outcome.advice == Advice::CheckIndexes && !has_checked_indexes =>
                {
                    has_checked_indexes = true;
                    self.engine.doubt_indexes();
                    self.engine.check_indexes().await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Starts one attempt. The call learns its answer even when the caller has gone by then.
    fn start_attempt(
        &self,
        is_unanswered: bool,
        predecessor: Option<&str>,
        time: AttemptTime,
    ) -> Pending<AcquireReply> {
        let is_first = !self.cleanup.has_started();
        // Without an oplog no operation time can order the grants of one batch, and without majority reads nothing can
        // tell who was granted what. Then the attempt goes alone.
        let may_be_batched = self.permits().is_exclusive()
            && self.request.has_oplog
            && !self.engine.runner.has_no_majority_reads();
        // Another attempt of a call without an answer shares a command too: after a command that was lost with many
        // calls, each would send one.
        let is_fast =
            (is_first || is_unanswered && may_be_batched) && self.may_be_fast(predecessor);
        let attempt_no = self.cleanup.start();
        let request = Arc::clone(&self.request);
        let answered = self.answered();
        let (name, alone) = (&self.request.name, &self.engine.alone);
        let has_written = AcquireReply::has_written;
        match is_fast {
            true if !self.permits().is_exclusive() => {
                let admit = FastAdmit { request, attempt_no };
                alone.start(name, admit, time, has_written, answered)
            }
            true => {
                let form = self.engine.hints.fast_form(&request.name);
                let acquire =
                    FastAcquire { request, attempt_no, form, resends: 0, first_sent: None };
                match may_be_batched {
                    true => self.engine.acquires.start(acquire, time, answered),
                    false => self.engine.acquires.start_alone(acquire, time, answered),
                }
            }
            false => {
                let predecessor = predecessor.map(str::to_owned);
                let acquire = SlowAcquire { request, attempt_no, predecessor };
                alone.start(name, acquire, time, has_written, answered)
            }
        }
    }

    /// Whether a call that has sent no slow acquire may send a fast acquire: only with a new value. A call that
    /// may join the queue needs the slow acquire if another holder is likely.
    fn may_be_fast(&self, predecessor: Option<&str>) -> bool {
        let request = &self.request;
        let is_new = request.value == request.call_id.as_str() && predecessor.is_none();
        is_new && (request.joins.is_none() || !self.engine.hints.contended.has(&request.name))
    }

    /// Reports an attempt's answer to the call, as its effect on what must be cleaned up.
    fn answered(&self) -> impl FnOnce(&AttemptResult<AcquireReply>) + Send + use<> {
        let call = Arc::clone(&self.cleanup);
        move |result| {
            use AcquireReply::{Granted, Refused, UseSlowForm};
            call.answered(match result {
                Ok(Granted(_) | UseSlowForm { maybe_granted: true }) => Effect::MaybeGranted,
                Ok(Refused(refused)) if refused.ahead.is_some() => Effect::Joined(refused.sent),
                Ok(Refused(_) | UseSlowForm { maybe_granted: false }) => Effect::Nothing,
                Err(failure) if failure.outcome.maybe_applied => Effect::MaybeGranted,
                Err(_) => Effect::Nothing,
            });
        }
    }

    /// Makes a lease of a grant. Returns `None` when its validity has passed already.
    async fn accept(&self, granted: Granted, policy: RetryPolicy) -> Result<Option<Lease>> {
        let key = self.key(&granted.grant_id);
        let Some(token) = self.token(granted.token, &key, policy).await? else {
            return Ok(None);
        };
        let (permits, expires_at) = granted.terms(self.permits());
        let grant = Grant {
            permits,
            hint: ReleaseHint::of_grant(permits, &granted.info),
            expires_at: expires_at.unwrap_or_default(),
            ..self.grant(key, token, granted.sent)
        };
        Ok(self.accept_grant(grant, Accepted::Answer(granted.sent)))
    }

    /// Makes a lease of a promotion that is valid for `term` at first. Returns `None` when that has passed already.
    pub(crate) fn accept_promotion(&self, told: Promotion, term: Duration) -> Option<Lease> {
        self.engine.hints.contended.found(&self.request.name);
        let grant = Grant {
            term: Some(term),
            expires_at: told.expires_at.unwrap_or_default(),
            ..self.grant(self.key(&told.grant_id), told.token.into(), told.sent)
        };
        self.accept_grant(grant, Accepted::Promotion(told.sent))
    }

    /// A grant that an attempt sent at `sent` has brought, for the whole ttl.
    fn grant(&self, key: GrantKey, token: Token, sent: Instant) -> Grant {
        Grant {
            key,
            token,
            timing: Arc::clone(&self.request.timing),
            hold_options: self.hold_options,
            hold_at_least: self.hold_at_least,
            sent,
            term: None,
            permits: self.permits(),
            // A promotion implies a queue; assume more waiters.
            hint: ReleaseHint::BesideOthers,
            expires_at: DateTime::default(),
            call: None,
        }
    }

    fn accept_grant(&self, mut grant: Grant, taken: Accepted) -> Option<Lease> {
        let (grant_id, token) = (GrantId::from(grant.key.grant_id()), grant.token);
        // In most cases the call can bring no other grant, and the lease need not remember it.
        grant.call = Some(&self.cleanup).filter(|call| !call.has_one_grant_only(taken)).cloned();
        let (number, holding) = self.engine.renewer.hold(grant)?;
        // A shutdown may have found the grant among the held leases already, and released it. Until the grant is
        // accepted, its cleanup is the call's duty.
        if holding.check().is_err() || !self.cleanup.accept(grant_id, taken) {
            self.engine.renewer.remove(number);
            return None;
        }
        let waited = self.engine.clock().now().since(self.started);
        self.engine.events.report_grant(&self.request.name, token, waited);
        Some(Lease::new(Arc::clone(&self.engine), holding, number))
    }

    fn key(&self, grant_id: &GrantId) -> GrantKey {
        GrantKey::new(&self.request.name, &self.request.value, grant_id)
    }

    /// The token of a grant. A server without an oplog needs one more command for it; `None` if the lease has gone by
    /// then.
    async fn token(
        &self,
        from_oplog: Option<Timestamp>,
        key: &GrantKey,
        policy: RetryPolicy,
    ) -> Result<Option<Token>> {
        if let Some(time) = from_oplog {
            return Ok(Some(time.into()));
        }
        let command = StandaloneToken { key: key.clone() };
        Ok(retry::run(&self.engine.runner, command, policy).await?.reply.map(Token::from))
    }
}
