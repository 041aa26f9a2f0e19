//! Lease: what its holder has in hands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use mongodb::ClientSession;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::failure::Failure;
use crate::commands::guard::Guard;
use crate::commands::renew::{GrantKey, RenewMany};
use crate::engine::Engine;
use crate::error::{Error, LostReason, Result};
use crate::hold::Holding;
use crate::hold::renewer::{Number, Unmatched};
use crate::release::{Ending, Released};
use crate::retry::{self, RetryPolicy};
use crate::rules::holder::{HoldAction, HoldEvent};
use crate::rules::ids::GrantId;
use crate::rules::outcome::MAYBE_APPLIED;
use crate::rules::token::Token;
use crate::telemetry::{self, Operation};

/// A lease that was granted.
///
/// As long as [`is_valid`](Lease::is_valid) is true, nobody else holds it, provided that the clocks of the replica
/// set's members are within the manager's maximum clock skew of each other (1 s by default). Where that is not enough,
/// let the guarded resource check the [`token`](Lease::token), or do the work in a transaction with
/// [`guard`](Lease::guard): these need no clock.
///
/// It renews itself after a third of its ttl unless told otherwise. When it is lost all the same, that is final for
/// this `Lease`: [`lost`](Lease::lost) and [`cancellation_token`](Lease::cancellation_token) tell, before anybody
/// else can hold it, by a timer that waits for no reply.
///
/// Dropping it gives it back in the background. [`release`](Lease::release) does so and says what came of it.
#[must_use = "a lease that is dropped is given back at once"]
#[clippy::has_significant_drop]
pub struct Lease {
    engine: Arc<Engine>,
    holding: Arc<Holding>,
    number: Number,
    /// Nothing is left to be given back.
    is_settled: bool,
}

/// A lease without its holder: what another request, or another process, needs to take it up, once.
///
/// Whoever has it can renew and release the lease. It can be serialized; in JSON the token is a string.
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

    pub(crate) fn grant_key(&self) -> GrantKey {
        GrantKey::new(&self.name, &self.value, &GrantId::from(&*self.grant))
    }
}

impl Lease {
    pub(crate) fn new(engine: Arc<Engine>, holding: Arc<Holding>, number: Number) -> Lease {
        Lease { engine, holding, number, is_settled: false }
    }

    /// The lease's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.holding.key.name()
    }

    /// The holder's value: who knows it and the name can release the lease.
    #[must_use]
    pub fn value(&self) -> &str {
        self.holding.key.value()
    }

    /// The fencing token. It is greater than that of every earlier grant of this name.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the lease is not valid any more.
    pub fn token(&self) -> Result<Token> {
        self.holding.check()?;
        Ok(self.holding.token)
    }

    /// When the lease runs out on the server unless it is renewed, by the server's clock. It may be later by now, by
    /// a renewal whose reply did not say, and is not earlier.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        self.holding.expires_at()
    }

    /// Whether the lease is held. False from the moment on at which that cannot be known any more, and then for ever.
    ///
    /// It reads the clock, which goes on while the process or the machine is stopped, and waits for nothing. The
    /// answer is about the moment of the call: a process may be stopped right behind it.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.holding.is_valid()
    }

    /// For how long the lease is valid unless it is renewed; zero when it is not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.holding.remaining()
    }

    /// Nothing while the lease is valid; else the error that says why it was lost.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the lease is not valid any more.
    pub fn check(&self) -> Result<()> {
        self.holding.check()
    }

    /// Waits until the lease is lost, and says why.
    ///
    /// It ends at the end of validity at the latest, before anybody else can hold the lease, and waits for no reply
    /// of the database's.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.holding.lost().cancelled().await;
        self.holding.reason()
    }

    /// A token that is cancelled when the lease is lost or released: for handing on to the work.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        // A child: whoever gets it may cancel it, and that must not look like a loss.
        self.holding.lost().child_token()
    }

    /// Runs `work`, and drops it when the lease is lost.
    ///
    /// The work is polled all the time, also while a renewal is under way. Being dropped stops it at its next
    /// `await`; what it has started elsewhere goes on, and what it has sent may still arrive: only the token or a
    /// guarded transaction fences that.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the lease was lost before the work had ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The lease is held on.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        self.holding.check()?;
        tokio::select! {
            biased;
            reason = self.lost() => Err(self.holding.error(&reason)),
            output = work => {
                // The end may have come in the middle of the last poll.
                self.holding.check()?;
                Ok(output)
            }
        }
    }

    /// Renews the lease now, also when it does not renew itself.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the lease is not held any more; [`Error::Damaged`] when somebody has put something else
    /// in the place of its expiry; [`Error::Unknown`] or [`Error::MongoDb`] when the database did not confirm it. But
    /// for the first, the lease is valid for as long as it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was renewed on the server. Validity stays what it was.
    pub async fn renew(&self) -> Result<()> {
        telemetry::span(Operation::Renew, self.name(), self.renew_now()).await
    }

    async fn renew_now(&self) -> Result<()> {
        self.holding.check()?;
        let attempt = self.holding.timing.attempt_deadline;
        let deadline = clock::now().after(self.holding.remaining().min(attempt * 2));
        let policy = RetryPolicy { attempt, deadline };
        let command = RenewMany { grants: vec![Arc::clone(&self.holding.key)] };
        let renewed =
            retry::run_alone(&self.engine.renewals, self.name(), command, policy).await?.reply;
        if renewed.matched == 0 {
            let reason = "the lease exists, but the renewal did not match it".to_owned();
            return self.not_matched(policy, Error::Unknown { reason, source: None }).await;
        }
        let next = self.holding.on(HoldEvent::Renewed { sent: renewed.sent }, None);
        if matches!(next, HoldAction::WakeAt(_)) {
            self.holding.tell_renewed();
            self.engine.renewer.look_again(self.number);
        }
        self.holding.check()
    }

    /// Makes the caller's transaction depend on the lease: it commits only if the lease has been held without a break
    /// since it was granted. This needs no clock: a former holder that does not know of its loss cannot commit.
    ///
    /// It writes to the lease's document within the transaction, so a take-over and the transaction exclude each
    /// other. Call it *first* in the transaction, and end the transaction within a third of the ttl: renewals of this
    /// lease wait for it, those of others do not.
    ///
    /// The session has to be one of the client whose database the manager was built with, and a transaction has to be
    /// under way in it. It waits for the database's answer as long as the client does; a loss in the meantime is
    /// reported with the answer.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when the lease is not held any more; [`Error::Damaged`] when somebody has put something else
    ///   in the place of its expiry; [`Error::InvalidOption`] when the transaction had begun before the lease was
    ///   granted. The transaction is to be aborted.
    /// - [`Error::MongoDb`] with the driver's labels: a conflict with a renewal or a take-over is a
    ///   `TransientTransactionError`, and the whole transaction is to be tried again, as
    ///   `start_transaction().and_run(…)` does. `?` turns this crate's error into the driver's there.
    ///
    /// # Cancel safety
    ///
    /// Like every command in a transaction: a dropped future leaves it open whether it was carried out, and the
    /// transaction should be aborted. When it was the first command of the transaction, the driver does not know that
    /// the server has begun one, and aborts nothing there: until the server ends it (after 60 s by default), this
    /// lease cannot be renewed, and may be lost. So better not drop it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     client: mongo_lease::mongodb::Client, lease: mongo_lease::Lease,
    /// # ) -> mongo_lease::Result<()> {
    /// use mongo_lease::mongodb::bson::doc;
    ///
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// lease.guard(&mut session).await?;
    /// let invoices = client.database("billing").collection::<mongo_lease::mongodb::bson::Document>("invoices");
    /// invoices.insert_one(doc! { "number": 42 }).session(&mut session).await?;
    /// session.commit_transaction().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn guard(&self, session: &mut ClientSession) -> Result<()> {
        self.holding.check()?;
        let guard = Guard { key: Arc::clone(&self.holding.key) };
        let sent = clock::now();
        // Before it is sent: from now on a bulk renewal might wait for this transaction.
        let _ = self.holding.on(HoldEvent::Guarded, None);
        self.engine.held_up.found(self.name());
        // Not given up when the lease is lost meanwhile: the driver would not know that the transaction has begun,
        // and leave it open on the server, where it keeps the document from those who come next.
        let runner = &self.engine.runner;
        let reply = guard.run(runner.database(), runner.collection(), session, sent).await?;
        match guard.decode(&reply, sent) {
            Ok(guarded) if guarded.matched > 0 => self.holding.check(),
            Ok(_) => {
                let reason = "the transaction began before the lease was granted";
                let too_early = Error::invalid_option("session", reason);
                self.not_matched(self.engine.policy(), too_early).await
            }
            Err(cause) => Err(Failure { outcome: MAYBE_APPLIED, cause }.into()),
        }
    }

    /// The server has not found our grant: finds out why, and says so. `although_present` is for when it is there.
    async fn not_matched(&self, policy: RetryPolicy, although_present: Error) -> Result<()> {
        match self.engine.renewer.why_unmatched(&self.holding.key, policy).await? {
            Unmatched::Lost(reason) => {
                let _ = self.holding.on(HoldEvent::NotOurs, Some(reason));
                self.holding.check()
            }
            Unmatched::Damaged(found) => Err(Error::damaged(self.name(), found)),
            Unmatched::Present => Err(although_present),
        }
    }

    /// Gives the lease back, if its document still names this holder: hands it on to the first in line, or deletes the
    /// document when nobody waits. Takes one round trip, or two when it was not to be foreseen which.
    ///
    /// Where somebody else has the lease by now, or nobody, the answer is [`Released::NotHeld`], and nothing is
    /// touched. When the database does not confirm the release in time (the manager's
    /// [`release_deadline`](crate::LeaseManagerBuilder::release_deadline), 10 s by default), it is tried again in the
    /// background until the lease has expired by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::MongoDb`] when the release was not confirmed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets the release go on in the background.
    pub async fn release(self) -> Result<Released> {
        let holding = Arc::clone(&self.holding);
        telemetry::span(Operation::Release, holding.key.name(), self.release_now()).await
    }

    async fn release_now(mut self) -> Result<Released> {
        self.engine.renewer.remove(self.number);
        let was_valid = self.holding.is_valid();
        self.holding.end();
        let left = self.holding.left_to_hold();
        let (target, hint) = (self.holding.target(), self.holding.hint);
        let released = self.engine.release(Ending { target, hint, was_valid }, left).await?;
        self.is_settled = true;
        self.holding.end_with_call();
        if released == Released::Released {
            self.holding.tell_released();
        }
        Ok(released)
    }

    /// Lets go of the lease without giving it back: renews it once more, so that it stays held for its whole ttl from
    /// now on, and leaves it until [`resume`](crate::LeaseManager::resume) takes it up, here or in another process.
    ///
    /// # Errors
    ///
    /// As [`renew`](Lease::renew). Then there is no key, and the lease is given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lease back in the background.
    pub async fn detach(mut self) -> Result<LeaseKey> {
        self.renew().await?;
        self.engine.renewer.remove(self.number);
        if !self.holding.end() {
            // A shutdown has come between, and releases it.
            return Err(self.holding.error(&self.holding.reason()));
        }
        // Not settled with the call: what a late attempt finds to be ours has to stand.
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
    /// Sends to a task that exists already: it never blocks, spawns or panics, and works outside a runtime.
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        self.engine.renewer.remove(self.number);
        if self.holding.end_with_call() {
            self.holding.tell_released();
        }
        self.engine.give_back(self.holding.give_back());
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lease")
            .field("name", &self.holding.key.name())
            .field("token", &self.holding.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
