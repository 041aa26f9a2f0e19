//! `Lease`: the holder's handle to a granted lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use mongo_lease_core::commands::{GrantKey, RenewHolders, RenewMany};
use mongo_lease_core::rules::{GrantId, HoldAction, HoldEvent, LOST_RELEASE_TIMEOUT};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, LostReason, Result};
use crate::hold::unmatched::{Unmatched, why_unmatched};
use crate::hold::{AgendaKey, Holding};
use crate::options::{check_name, check_value};
use crate::release::{Ending, Released};
use crate::retry::{self, RetryPolicy};
use crate::telemetry::Operation;
use crate::token::Token;

/// A lease that was granted to this process.
///
/// While [`is_valid`](Lease::is_valid) is true, nobody else holds the lease, provided that the clocks of the replica
/// set's members differ by at most the manager's maximum clock skew (1 s by default). A [shared](Lease::is_shared)
/// lease is held beside others, but by no more than its limit allows. Where that is not enough, let the guarded
/// resource check the [`token`](Lease::token), or do the work in a [`transaction`](Lease::transaction) under the lease:
/// these need no clock.
///
/// The lease renews itself after a third of its ttl unless you turn that off. A loss is final for this `Lease`:
/// [`lost`](Lease::lost) and [`cancellation_token`](Lease::cancellation_token) report it before anybody else can hold
/// the lease, by a timer that waits for no reply. Dropping the `Lease` releases it in the background;
/// [`release`](Lease::release) also returns the result.
#[must_use = "a lease that is dropped is given back at once"]
#[clippy::has_significant_drop]
pub struct Lease {
    pub(crate) engine: Arc<Engine>,
    pub(crate) holding: Arc<Holding>,
    pub(crate) number: AgendaKey,
    /// The lease was released or detached: the drop has nothing to give back.
    is_settled: bool,
    /// A release has ended the lease, and no event has told so yet.
    is_untold: bool,
}

/// The data with which another request or process can resume a detached lease, once. Anybody with this key can renew
/// and release the lease. In JSON the token is a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseKey {
    name: String,
    value: String,
    grant: String,
    token: Token,
}

impl LeaseKey {
    /// The lease's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The holder's value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The fencing token of the grant.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// The grant that the key names. A forged key might name documents that are nobody's, or several holders'.
    pub(crate) fn grant_key(&self) -> Result<GrantKey> {
        check_name(&self.name)?;
        check_value(&self.value)?;
        Ok(GrantKey::new(&self.name, &self.value, &GrantId::from(&*self.grant)))
    }
}

impl Lease {
    pub(crate) fn new(engine: Arc<Engine>, holding: Arc<Holding>, number: AgendaKey) -> Lease {
        Lease { engine, holding, number, is_settled: false, is_untold: false }
    }

    /// The lease's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.holding.key.name()
    }

    /// The holder's value. Anybody with the name and the value can release the lease.
    #[must_use]
    pub fn value(&self) -> &str {
        self.holding.key.value()
    }

    /// How many permits the lease has: 1, unless the call asked for [more](crate::Acquire::permits).
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.holding.permits.count()
    }

    /// Whether others may hold the name at the same time, that is, whether the lease has a limit above 1: that of a
    /// [`Semaphore`](crate::Semaphore), or the 1,000 of [`shared`](crate::Acquire::shared).
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.holding.permits.is_exclusive()
    }

    /// The fencing token. It is greater than that of every earlier grant of this name beside which it could not be
    /// held: of an exclusive lease, of every earlier grant. The tokens of those who hold a name together are in no
    /// order.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease is no longer valid.
    pub fn token(&self) -> Result<Token> {
        self.holding.check()?;
        Ok(self.holding.token)
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.engine.clock()
    }

    /// The token, whether the lease is still valid or not.
    pub(crate) fn granted_token(&self) -> Token {
        self.holding.token
    }

    /// A lower bound of the lease's expiry on the server, by the server's clock. The reply to a renewal does not
    /// contain the expiry.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        self.holding.expires_at()
    }

    /// Whether the lease is held. Once this is no longer certain, it is false, and stays false.
    ///
    /// It reads the clock, which also runs while the process or the machine is suspended, and waits for nothing. The
    /// process may be suspended right after the call.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.holding.is_valid()
    }

    /// How long the lease is valid unless it is renewed; zero if it is not valid.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.holding.remaining()
    }

    /// Returns an error if the lease was lost.
    ///
    /// # Errors
    /// [`Error::Lost`] with the reason, if the lease is no longer valid.
    pub fn check(&self) -> Result<()> {
        self.holding.check()
    }

    /// Waits until the lease is lost, and returns the reason: when the validity ends at the latest, before anybody else
    /// can hold the lease, whether the database replies or not.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.holding.lost().cancelled().await;
        self.holding.reason_for_end()
    }

    /// Why the lease was lost; of a valid lease, why it is lost if its validity ends now.
    pub(crate) fn reason_for_end(&self) -> LostReason {
        self.holding.reason_for_end()
    }

    /// A token that is cancelled when the lease is lost or released. Pass it to the work.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        // A child: a caller may cancel its token, and that must not look like a loss.
        self.holding.lost().child_token()
    }

    /// Runs `work`, and drops it if the lease is lost.
    ///
    /// Dropping the work stops it at its next `await`. Tasks that it has started go on, and commands that it has sent
    /// may still arrive: only the token or a [transaction](Lease::transaction) under the lease protects against those.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease was lost before the work had ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work. The lease stays held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        self.holding.check()?;
        tokio::select! {
            biased;
            reason = self.lost() => Err(self.holding.error(&reason)),
            output = work => {
                // The validity may have ended during the last poll.
                self.holding.check()?;
                Ok(output)
            }
        }
    }

    /// Renews the lease now. Works also if automatic renewal is off.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease is no longer held; [`Error::Damaged`] if its expiry in the document is no longer a
    /// date; [`Error::Unknown`] or [`Error::MongoDb`] if the database did not confirm the renewal. After any but
    /// `Lost`, the lease stays valid for as long as it was.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may or may not have renewed the lease. The validity does not change.
    pub async fn renew(&self) -> Result<()> {
        let span = self.engine.span(Operation::Renew, self.name(), Some(self.holding.token));
        span.around(self.renew_now(), |()| ("renewed", None)).await
    }

    async fn renew_now(&self) -> Result<()> {
        self.holding.check()?;
        let attempt_timeout = self.holding.timing.attempt_timeout;
        let deadline =
            self.engine.clock().now().after(self.holding.remaining().min(attempt_timeout * 2));
        let policy = RetryPolicy { attempt_timeout, deadline };
        let grants = vec![self.holding.renewal_target()];
        let (renewals, name) = (&self.engine.renewals, self.name());
        let renewed = match self.is_shared() {
            false => retry::run_alone(renewals, name, RenewMany { grants }, policy).await,
            true => retry::run_alone(renewals, name, RenewHolders { grants }, policy).await,
        };
        let renewed = renewed?.reply;
        if renewed.matched == 0 {
            let reason = "the lease exists, but the renewal did not match it".to_owned();
            return self.not_matched(policy, Error::Unknown { reason, source: None }).await;
        }
        let next = self.holding.on(HoldEvent::Renewed(renewed.sent), None);
        if matches!(next, HoldAction::WakeAt(_)) {
            self.holding.tell_renewed();
            self.engine.renewer.look_again(self.number);
        }
        self.holding.check()
    }

    /// Returns an error where others may hold the lease too.
    pub(crate) fn check_exclusive(&self, method: &str, reason: &str) -> Result<()> {
        let missing = || format!("`{method}` works for exclusive leases only: {reason}");
        if self.is_shared() { Err(Error::unsupported(missing())) } else { Ok(()) }
    }

    /// Finds out why the server did not match our grant. If the grant exists, the error is `although_present`.
    async fn not_matched(&self, policy: RetryPolicy, although_present: Error) -> Result<()> {
        let (runner, key) = (&self.engine.runner, &self.holding.key);
        match why_unmatched(runner, key, self.is_shared(), policy).await? {
            Unmatched::Lost(reason) => {
                let _ = self.holding.on(HoldEvent::NotOurs, Some(reason));
                self.holding.check()
            }
            Unmatched::Damaged(found) => Err(Error::damaged(self.name(), found)),
            Unmatched::Present => Err(although_present),
        }
    }

    /// Releases the lease, if its document still names this holder.
    ///
    /// It hands the lease off to the first live waiter, or deletes the document if the queue is empty: in one round
    /// trip in most cases, in two or three where the document is not as it is likely to be. If the lease is free by now
    /// or has another holder, the result is [`Released::NotHeld`], and nothing changes. If the database does not
    /// confirm the release in time (the manager's [`release_timeout`](crate::LeaseManagerBuilder::release_timeout),
    /// 10 s by default; a second for a lease that was lost before), it is retried in the background until the lease
    /// expires.
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::MongoDb`] if the release was not confirmed; [`Error::Damaged`] if the document is
    /// damaged: then nothing was written, and an operator has to repair it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the release goes on in the background.
    pub async fn release(self) -> Result<Released> {
        let span = self.engine.span(Operation::Release, self.name(), Some(self.holding.token));
        let ended = |released: &Released| match released {
            Released::Released => ("released", None),
            Released::NotHeld => ("not_held", None),
            Released::Unknown => ("unknown", None),
        };
        span.around(self.release_now(), ended).await
    }

    async fn release_now(mut self) -> Result<Released> {
        self.engine.renewer.remove(self.number);
        let was_valid = self.holding.is_valid();
        self.is_untold = self.holding.end();
        let left = self.holding.left_to_hold();
        let (target, hint) = (self.holding.target(), self.holding.hint);
        let (releaser, mut policy) = (&self.engine.releaser, self.engine.release_policy());
        if !was_valid {
            // Its caller has work to stop: what the release finds out comes second.
            let soon = self.engine.clock().now().after(LOST_RELEASE_TIMEOUT);
            policy.deadline = policy.deadline.min(soon);
        }
        let released = match left {
            None => releaser.end(Ending { target, hint, was_valid, applied: None }, policy).await?,
            Some(hold_at_least) => {
                releaser.end_later(target, was_valid, hold_at_least, policy).await?
            }
        };
        self.is_settled = true;
        self.holding.end_with_call();
        match released {
            Released::Released => self.holding.tell_released(),
            Released::NotHeld | Released::Unknown => {
                self.engine.releaser.check_sound(self.holding.target(), policy).await?;
            }
        }
        Ok(released)
    }

    /// Detaches the lease from this handle without releasing it: renews it once more, so that it stays held for its
    /// whole ttl from now on, or until [`resume`](crate::LeaseManager::resume) takes it up in this or another process.
    ///
    /// # Errors
    /// As [`renew`](Lease::renew); and [`Error::Unsupported`] for a lease that others may
    /// [hold too](Lease::is_shared). After an error there is no key, and the lease is released in the background.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease is released in the background.
    pub async fn detach(mut self) -> Result<LeaseKey> {
        self.check_exclusive("detach", "a key names one holder of an exclusive lease")?;
        self.renew().await?;
        self.engine.renewer.remove(self.number);
        if !self.holding.end() {
            // A shutdown came first, and releases the lease.
            return Err(self.holding.error(&self.holding.reason_for_end()));
        }
        // Not settled with the call: if a late attempt finds the lease granted to us, that grant must stay.
        self.is_settled = true;
        let key = &self.holding.key;
        Ok(LeaseKey {
            name: key.name().to_owned(),
            value: key.value().to_owned(),
            grant: key.grant_id().to_owned(),
            token: self.holding.token,
        })
    }
}

impl Drop for Lease {
    /// Notifies a running task. It never blocks, spawns or panics, and works outside a runtime.
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        self.engine.renewer.remove(self.number);
        // A release that failed, or whose future was dropped, goes on in the background.
        let is_own_end = self.holding.end_with_call() || self.is_untold;
        if is_own_end {
            self.holding.tell_released();
        }
        self.engine.give_back(self.holding.give_back(), is_own_end);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Lease");
        shown.field("name", &self.name()).field("token", &self.holding.token);
        shown.field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}
