//! Asking: an acquire call that is being made.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::commands::acquire::{Acquire, Ask, Granted, Reply};
use crate::commands::renew::GrantKey;
use crate::commands::tick::Tick;
use crate::engine::Engine;
use crate::error::{Cause, Error, Failure, Result};
use crate::events::Event;
use crate::holding::Grant;
use crate::info::{LeaseInfo, LeaseState};
use crate::lease::Lease;
use crate::reaper::Call;
use crate::rules::attempts::Effect;
use crate::rules::backoff::{POLL, RETRY};
use crate::rules::holder::Terms;
use crate::rules::outcome::{MAYBE_APPLIED, Then};
use crate::rules::time::Instant;
use crate::rules::token::Token;
use crate::rules::waiter::{self, Next};
use crate::runner::Limits;
use crate::telemetry;

/// A call that is being made. Dropping it abandons the call: what was granted, or may be yet, is given back.
pub(crate) struct Asking {
    engine: Arc<Engine>,
    ask: Arc<Ask>,
    call: Arc<Call>,
    terms: Terms,
    hold_at_least: Option<Duration>,
    started: Instant,
}

impl Drop for Asking {
    fn drop(&mut self) {
        // Nothing happens when the lease was taken: the call goes on with it.
        self.call.abandon();
    }
}

impl Asking {
    /// A call that has sent nothing yet.
    pub(crate) fn new(
        engine: Arc<Engine>,
        ask: Arc<Ask>,
        terms: Terms,
        hold_at_least: Option<Duration>,
    ) -> Asking {
        let call = Call::new(Arc::clone(&ask), engine.reaper.clone(), engine.closing.clone());
        Asking { engine, ask, call, terms, hold_at_least, started: clock::now() }
    }

    /// How long one attempt may take.
    pub(crate) fn attempt_deadline(&self) -> Duration {
        self.ask.timing.attempt_deadline
    }

    /// Asks, again after refusals, until the lease is granted or the deadline comes.
    pub(crate) async fn wait(&self, deadline: Instant) -> Result<Lease> {
        let mut delays = clock::jittered(POLL);
        let mut held = None;
        loop {
            let info = match clock::before(deadline, self.until_answered(deadline)).await {
                Some(Ok(Ok(lease))) => return Ok(lease),
                Some(Ok(Err(info))) => info,
                Some(Err(error)) if is_for_want_of_time(&error) && clock::now() >= deadline => {
                    return Err(timeout(&self.ask.name, self.started, held, Some(error)));
                }
                Some(Err(error)) => return Err(error),
                None => return Err(timeout(&self.ask.name, self.started, held, None)),
            };
            let delay = delays.next().unwrap_or(POLL.longest);
            let next = waiter::after_refusal(clock::now(), delay, info.remaining, deadline);
            held = Some(Box::new(info));
            match next {
                Next::AskAt(at) => clock::sleep_until(at).await,
                Next::GiveUpAt(at) => {
                    clock::sleep_until(at).await;
                    return Err(timeout(&self.ask.name, self.started, held, None));
                }
            }
        }
    }

    /// Asks until the server says yes or no: a lease, or who has it.
    pub(crate) async fn until_answered(
        &self,
        deadline: Instant,
    ) -> Result<Result<Lease, LeaseInfo>> {
        let mut has_checked_indexes = false;
        let attempt = self.ask.timing.attempt_deadline;
        loop {
            self.engine.check_open()?;
            let limits = Limits { attempt, deadline, delays: RETRY };
            let answer = self.engine.runner.run_attempts(limits, || self.attempt()).await;
            match answer {
                Ok(answer) => match answer.reply {
                    Reply::Granted(granted) => {
                        if let Some(lease) = self.take(granted, limits).await? {
                            return Ok(Ok(lease));
                        }
                        // The answer came too late to be a grant. What the server holds is still ours: ask again.
                        if clock::now() >= deadline {
                            return Err(no_answer());
                        }
                    }
                    Reply::Refused(info) => {
                        telemetry::refused(&info.name, info.owner.as_deref());
                        return refused(info).map(Err);
                    }
                },
                Err(failure)
                    if failure.outcome.then == Then::CheckIndexes && !has_checked_indexes =>
                {
                    has_checked_indexes = true;
                    self.engine.doubt_indexes();
                    self.engine.check_indexes().await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// One attempt, and what its answer means for the call.
    fn attempt(&self) -> (Acquire, impl FnOnce(&Result<Reply, Failure>) + Send + use<>) {
        let attempt = self.call.start();
        let call = Arc::clone(&self.call);
        let answered = move |result: &Result<Reply, Failure>| {
            call.answered(match result {
                Ok(Reply::Granted(_)) => Effect::MaybeGranted,
                Ok(Reply::Refused(_)) => Effect::Nothing,
                Err(failure) if failure.outcome.maybe_applied => Effect::MaybeGranted,
                Err(_) => Effect::Nothing,
            });
        };
        (Acquire { ask: Arc::clone(&self.ask), attempt }, answered)
    }

    /// Makes a lease of a grant; nothing when its validity has passed already.
    async fn take(&self, granted: Granted, limits: Limits) -> Result<Option<Lease>> {
        let key = GrantKey {
            name: self.ask.name.clone(),
            value: self.ask.value.clone(),
            grant_id: granted.grant_id,
        };
        let Some(token) = self.token(granted.token, &key, limits).await? else {
            return Ok(None);
        };
        let grant = Grant {
            key,
            token,
            timing: self.engine.shared_timing(self.ask.timing),
            terms: self.terms,
            hold_at_least: self.hold_at_least,
            sent: granted.sent,
            expires_at: granted.info.expires_at.unwrap_or_default(),
            // Mostly nothing else can come of the call, and a lease need not remember it.
            call: Some(&self.call).filter(|call| !call.has_one_grant_only()).cloned(),
        };
        let Some((number, holding)) = self.engine.hold(grant) else {
            return Ok(None);
        };
        // A shutdown may have found it in care already, and released it. As long as it is not taken, the call answers
        // for what was granted.
        if holding.check().is_err() || !self.call.take(&holding.key.grant_id) {
            self.engine.renewer.remove(number);
            return Ok(None);
        }
        let waited = clock::now().since(self.started);
        telemetry::granted(&self.ask.name, token, waited);
        self.engine.events.tell(|| Event::Granted { name: self.ask.name.clone(), token });
        Ok(Some(Lease::new(Arc::clone(&self.engine), holding, number)))
    }

    /// The token of a grant. A server without an oplog is asked for one; nothing when the lease has gone by then.
    async fn token(
        &self,
        from_oplog: Option<Token>,
        key: &GrantKey,
        limits: Limits,
    ) -> Result<Option<Token>> {
        if from_oplog.is_some() {
            return Ok(from_oplog);
        }
        let tick = Tick {
            collection: self.ask.collection.clone(),
            name: key.name.clone(),
            value: key.value.clone(),
            grant_id: key.grant_id.clone(),
        };
        Ok(self.engine.runner.run(tick, limits).await?.reply)
    }
}

/// A refusal, unless it says that nobody can ever be granted the lease.
fn refused(info: LeaseInfo) -> Result<LeaseInfo> {
    match info.state {
        LeaseState::Damaged { found } => Err(Error::damaged(&info.name, found)),
        LeaseState::Held | LeaseState::Free => Ok(info),
    }
}

/// Whether more time could have helped.
fn is_for_want_of_time(error: &Error) -> bool {
    matches!(error, Error::MongoDb(_) | Error::Unknown { .. })
}

fn no_answer() -> Error {
    Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline }.into()
}

pub(crate) fn timeout(
    name: &str,
    started: Instant,
    held: Option<Box<LeaseInfo>>,
    source: Option<Error>,
) -> Error {
    let waited = clock::now().since(started);
    Error::WaitTimeout { name: name.to_owned(), waited, held, source: source.map(Box::new) }
}
