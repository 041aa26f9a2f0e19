//! One hold, from the grant to its end.

use std::time::Duration;

use mongo_lease::{Error, Lease, Released};
use mongo_lease_checker::history::{Ending, Letting, Outcome, TransactionEnd, What};
use mongo_lease_checker::permits::Permits;
use mongo_lease_checker::{MILLI, Nanos};
use rand::RngExt;
use rand::rngs::StdRng;

use super::Worker;
use super::last::LAST;
use crate::transactions::{Line, Session};
use crate::world::{locked, sleep_ms};

/// How much a renewal must add to get a line in the history.
const LONGER: Nanos = 20 * MILLI;
/// How long a look at a lease comes after the one before, in milliseconds.
const LOOK_MS: std::ops::Range<u64> = 20..220;
/// How long a transaction is open at most, in milliseconds. Its caller waits up to twenty times as long for its end.
const PAUSE_MS: u64 = 400;
/// For how long one in ten waits for its first operation, which it drops with the transaction.
const HASTE: Duration = Duration::from_millis(2);
/// How long after the last fault: a transaction takes less than a second then.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// How a hold is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    LetGo(Letting),
    /// It holds on until it has lost, and writes once more all the same.
    HoldOn,
}

/// The plan for a lease.
pub(super) struct Plan {
    pub(super) hold_ms: u64,
    pub(super) renews: bool,
    end: End,
    /// How many of a hundred looks lead to a write, to a burst of renewals, and to a transaction.
    writes: u32,
    renewals: u32,
    transactions: u32,
}

impl Plan {
    /// A hold that ends at once by a release.
    pub(super) fn brief() -> Plan {
        let end = End::LetGo(Letting::Release);
        Plan { hold_ms: 0, renews: false, end, writes: 0, renewals: 0, transactions: 0 }
    }

    /// A hold of so long that renews and is released.
    pub(super) fn long(hold_ms: u64) -> Plan {
        Plan { hold_ms, renews: true, ..Plan::brief() }
    }

    /// The same, with transactions.
    pub(super) fn with_transactions(hold_ms: u64) -> Plan {
        Plan { transactions: 30, ..Plan::long(hold_ms) }
    }

    /// Whether it ends by a drop.
    pub(super) fn is_dropped(&self) -> bool {
        self.end == End::LetGo(Letting::Drop)
    }

    pub(super) fn any(random: &mut StdRng, ttl_ms: u64) -> Plan {
        let hold_ms = match random.random_range(0..100) {
            0..10 => random.random_range(ttl_ms / 2..ttl_ms * 3),
            _ => random.random_range(5..500),
        };
        let end = match random.random_range(0..100) {
            0..4 => End::HoldOn,
            4..28 => End::LetGo(Letting::Drop),
            _ => End::LetGo(Letting::Release),
        };
        // A holder that holds on without renewing learns when its lease is over.
        let renews = end != End::HoldOn && random.random_bool(0.9);
        let hold_ms = if end == End::HoldOn { ttl_ms * 2 } else { hold_ms };
        let renewals = if end == End::HoldOn { 0 } else { 6 };
        Plan { hold_ms, renews, end, writes: 30, renewals, transactions: 12 }
    }
}

/// Holds a lease, writes to the resource, and ends the lease.
pub(super) async fn hold(
    worker: &Worker,
    random: &mut StdRng,
    call: String,
    (lease, permits): (Lease, Permits),
    plan: Plan,
) {
    let Some(mut holder) = Holder::new(worker, &call, &lease, permits) else {
        return;
    };
    holder.until_the_end(random, &plan).await;
    drop(holder);
    let letting = match plan.end {
        End::LetGo(letting) => letting,
        End::HoldOn => Letting::Release,
    };
    worker.let_go(call, lease, letting).await;
}

/// A holder of a lease.
pub(super) struct Holder<'a> {
    worker: &'a Worker,
    lease: &'a Lease,
    permits: Permits,
    call: &'a str,
    token: u64,
    /// The end of belief that the history contains.
    told: Nanos,
}

impl<'a> Holder<'a> {
    /// Notes the grant. `None` if it is lost by now: as if it had not been granted.
    pub(super) fn new(
        worker: &'a Worker,
        call: &'a str,
        lease: &'a Lease,
        permits: Permits,
    ) -> Option<Holder<'a>> {
        let told = valid_until(worker, lease);
        let Ok(token) = lease.token() else {
            worker.ended(call, Ending::Failed, "lost at once".to_owned());
            return None;
        };
        let token = worker.token(lease.name(), token.as_u64());
        let (name, value) = (lease.name().to_owned(), lease.value().to_owned());
        let (id, valid_until) = (call.to_owned(), told);
        worker.note(What::Granted { call: id, name, token, value, valid_until });
        locked(&worker.holds).insert(call.to_owned());
        Some(Holder { worker, lease, permits, call, token, told })
    }

    pub(super) fn call(&self) -> &str {
        self.call
    }

    /// Returns when the plan's time is over, or the lease is lost.
    pub(super) async fn until_the_end(&mut self, random: &mut StdRng, plan: &Plan) {
        let world = &self.worker.world;
        let end = world.now() + plan.hold_ms * MILLI;
        loop {
            if self.look() {
                // A holder that does not check: the case for the fence. A little later, when somebody else may have
                // the lease.
                if random.random_bool(0.8) {
                    sleep_ms(random.random_range(0..300)).await;
                    self.write(true);
                }
                return;
            }
            if world.now() >= end {
                return;
            }
            let chance = random.random_range(0..100);
            if chance < plan.writes {
                self.write(false);
            } else if chance < plan.writes + plan.renewals {
                self.renew_at_once(random).await;
            } else if chance < plan.writes + plan.renewals + plan.transactions {
                self.transact(random).await;
            }
            let left = end.saturating_sub(world.now()) / MILLI;
            sleep_ms(random.random_range(LOOK_MS).min(left.max(1))).await;
        }
    }

    /// Notes what has become of the lease. Says whether it is lost.
    fn look(&mut self) -> bool {
        let valid_until = valid_until(self.worker, self.lease);
        let call = self.call.to_owned();
        if let Err(error) = self.lease.check() {
            self.worker.note(What::Lost { call, reason: error.to_string() });
            return true;
        }
        if valid_until > self.told + LONGER {
            self.told = valid_until;
            self.worker.note(What::Renewed { call, valid_until });
        }
        false
    }

    /// Several renewals side by side, a little apart.
    async fn renew_at_once(&self, random: &mut StdRng) {
        let apart = random.random_range(0..40);
        // A renewal that fails changes nothing, or the lease reports it.
        let _ = tokio::join!(self.lease.renew(), async {
            sleep_ms(apart).await;
            self.lease.renew().await
        });
    }

    /// Writes a line in a transaction under the lease.
    async fn transact(&self, random: &mut StdRng) {
        let Worker { world, process, plan, .. } = self.worker;
        if !plan.has_transactions || !self.permits.is_exclusive() {
            return;
        }
        let (call, name) = (self.call.to_owned(), self.lease.name().to_owned());
        let number = random.random::<u32>();
        let transaction = format!("{call}:{number}");
        let line = Line { name, call: call.clone(), transaction: transaction.clone() };
        let session = Session::new(world, process, line);
        let pause = random.random_range(0..PAUSE_MS);
        let patience = match self.lease.name() {
            LAST => LAST_PATIENCE,
            _ => Duration::from_millis(random.random_range(PAUSE_MS..20 * PAUSE_MS)),
        };
        let is_hasty = self.lease.name() != LAST && number.is_multiple_of(10);
        let committing = tokio::time::timeout(patience, async {
            let mut open = self.lease.simulated_transaction(Box::new(session)).await?;
            if is_hasty {
                let _dropped = tokio::time::timeout(HASTE, open.operate()).await;
                return Ok(None);
            }
            open.operate().await?;
            sleep_ms(pause).await;
            open.commit().await.map(Some)
        });
        let (end, text) = match committing.await {
            Ok(Ok(Some(()))) => (TransactionEnd::Committed, String::new()),
            Ok(Ok(None)) => return,
            Ok(Err(error @ Error::CommitUnknown { .. })) => {
                (TransactionEnd::Unknown, error.to_string())
            }
            Ok(Err(error)) => (TransactionEnd::NotCommitted, error.to_string()),
            Err(_) => (TransactionEnd::Unknown, "dropped by its caller".to_owned()),
        };
        self.worker.note(What::Transacted { call, transaction, end, text });
    }

    fn write(&self, is_stale: bool) {
        let world = &self.worker.world;
        // In one control it is the time of a later reply than the one that granted.
        let token = if world.is("retried-token") { world.newest_token() } else { self.token };
        let call = self.call.to_owned();
        let accepted =
            Some(world.resource.write(world, &call, self.lease.name(), token, self.permits));
        self.worker.note(What::Wrote { call, token, accepted, is_stale });
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        locked(&self.worker.holds).remove(self.call);
    }
}

impl Worker {
    /// The token that a holder believes it has.
    fn token(&self, name: &str, token: u64) -> u64 {
        if !self.world.is("kept-token") {
            return token;
        }
        *locked(&self.first_tokens).entry(name.to_owned()).or_insert(token)
    }

    /// Ends a lease, and notes how.
    pub(super) async fn let_go(&self, call: String, lease: Lease, how: Letting) {
        locked(&self.holds).remove(&call);
        self.note(What::Releasing { call: call.clone(), how });
        match how {
            Letting::Drop => drop(lease),
            Letting::Release => self.released(call, lease.release().await),
        }
    }

    pub(super) fn released(&self, call: String, result: Result<Released, Error>) {
        let (outcome, text) = match result {
            Ok(Released::Released) => (Outcome::Released, String::new()),
            Ok(Released::NotHeld) => (Outcome::NotHeld, String::new()),
            Err(Error::Unknown { reason, .. }) => (Outcome::Unknown, reason),
            Ok(_) => (Outcome::Unknown, String::new()),
            Err(error) => (Outcome::Failed, error.to_string()),
        };
        self.note(What::Released { call, outcome, text });
    }
}

/// The end of a holder's belief; now when it does not believe.
fn valid_until(worker: &Worker, lease: &Lease) -> Nanos {
    let remaining = worker.process.real(lease.remaining());
    // In the control it believes for longer than its lease.
    let longer = if worker.world.is("believes-longer") && !remaining.is_zero() { 300 } else { 0 };
    let remaining = remaining + Duration::from_millis(longer);
    worker.world.now() + u64::try_from(remaining.as_nanos()).unwrap_or(0)
}
