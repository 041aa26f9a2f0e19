//! One hold, from the grant to its end.

use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::error::Error as DriverError;
use mongo_lease::{Error, Lease, Released};
use mongo_lease_checker::history::{Ending, Letting, Outcome, TransactionEnd, What};
use mongo_lease_checker::permits::Permits;
use mongo_lease_checker::{MILLI, Nanos};
use rand::RngExt;
use rand::rngs::StdRng;
use rustix::process::{Signal, getpid, kill_process};

use super::Worker;
use super::belief::Belief;
use crate::clock;
use crate::cluster::LEDGER;
use crate::control::Control;

/// How often a holder checks its lease.
const LOOK: Duration = Duration::from_millis(25);
/// How much a renewal must add to get a line in the history.
const LONGER: Nanos = 20 * MILLI;

/// How long a worker waits for the end of a transaction.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a hold is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    LetGo(Letting),
    Crash,
    /// It holds on until it has lost, and writes once more all the same.
    HoldOn,
}

/// The plan for a lease.
pub(super) struct Plan {
    ttl_ms: u64,
    hold_ms: u64,
    pub(super) renews: bool,
    end: End,
    /// How many of a hundred checks lead to a write, to a burst of renewals, and to a transaction.
    writes: u32,
    renewals: u32,
    transactions: u32,
}

impl Plan {
    /// A random plan. Of a hundred holders, `hold_on` hold on.
    pub(super) fn any(random: &mut StdRng, ttl_ms: u64, hold_on: u32) -> Plan {
        let hold_ms = match random.random_range(0..100) {
            0..10 => random.random_range(ttl_ms / 2..ttl_ms * 3 / 2),
            _ => random.random_range(5..150),
        };
        let end = match random.random_range(0..100) {
            0..2 => End::Crash,
            end if end < 2 + hold_on => End::HoldOn,
            end if end < 27 + hold_on => End::LetGo(Letting::Drop),
            _ => End::LetGo(Letting::Release),
        };
        // A holder that holds on without renewing learns when its lease is over.
        let renews = end != End::HoldOn && random.random_bool(0.9);
        let hold_ms = if end == End::HoldOn { ttl_ms * 2 } else { hold_ms };
        let renewals = if end == End::HoldOn { 0 } else { 6 };
        Plan { ttl_ms, hold_ms, renews, end, writes: 40, renewals, transactions: 10 }
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
    let mut belief = Belief::new(worker, plan.ttl_ms, &lease);
    let valid_until = belief.valid_until(&lease);
    let Ok(token) = lease.token() else {
        // Lost before the first check: as if it had not been granted.
        let text = "lost at once".to_owned();
        return worker.ended(call, Ending::Failed, text);
    };
    let token = token.as_u64();
    worker.history.note(What::Granted {
        call: call.clone(),
        name: lease.name().to_owned(),
        token,
        value: lease.value().to_owned(),
        valid_until,
    });
    let mut holder = Holder { worker, lease, permits, call, token, told: valid_until };
    let has_lost = holder.until_the_end(random, &plan, &mut belief).await;
    if plan.end == End::Crash && !has_lost {
        worker.history.note(What::Crashing);
        // The hardest end: nothing is closed, nothing is dropped.
        let _ = kill_process(getpid(), Signal::KILL);
    }
    if has_lost && random.random_bool(0.8) {
        // A holder that does not check: the case for the fence. A little later, when somebody else may have the lease.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..300))).await;
        holder.write(true).await;
    }
    let letting = match plan.end {
        End::LetGo(letting) => letting,
        End::Crash | End::HoldOn => Letting::Release,
    };
    holder.let_go(letting).await;
}

/// The control's mistake: a transaction that commits a second later, whatever has become of the lease.
async fn unguarded(database: Database, line: Document) -> Result<(), DriverError> {
    let mut session = database.client().start_session().await?;
    session.start_transaction().await?;
    database.collection::<Document>(LEDGER).insert_one(line).session(&mut session).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    session.commit_transaction().await
}

struct Holder<'a> {
    worker: &'a Worker,
    lease: Lease,
    permits: Permits,
    call: String,
    token: u64,
    /// The end of belief that the history contains.
    told: Nanos,
}

impl Holder<'_> {
    /// Whether the lease was lost.
    async fn until_the_end(
        &mut self,
        random: &mut StdRng,
        plan: &Plan,
        belief: &mut Belief,
    ) -> bool {
        let end = clock::now() + plan.hold_ms * MILLI;
        loop {
            let valid_until = belief.valid_until(&self.lease);
            if !belief.is_valid(&self.lease) {
                let reason = self.lease.check().err().map(|error| error.to_string());
                let reason = reason.unwrap_or_else(|| "its own time is over".to_owned());
                self.worker.history.note(What::Lost { call: self.call.clone(), reason });
                return true;
            }
            if valid_until > self.told + LONGER {
                self.told = valid_until;
                self.worker.history.note(What::Renewed { call: self.call.clone(), valid_until });
            }
            if clock::now() >= end {
                return false;
            }
            let chance = random.random_range(0..100);
            if chance < plan.writes {
                self.write(false).await;
            } else if chance < plan.writes + plan.renewals {
                self.renew_at_once(random, belief).await;
            } else if chance < plan.writes + plan.renewals + plan.transactions {
                self.transact(random, plan.ttl_ms).await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Several renewals side by side, a little apart.
    async fn renew_at_once(&self, random: &mut StdRng, belief: &mut Belief) {
        let apart = Duration::from_millis(random.random_range(0..40));
        tokio::join!(belief.renew(&self.lease), async {
            tokio::time::sleep(apart).await;
            // The lease itself reports its result.
            drop(self.lease.renew().await);
        });
    }

    async fn write(&self, is_stale: bool) {
        let (call, name, token) = (self.call.clone(), self.lease.name(), self.token);
        let is_exclusive = self.permits.is_exclusive();
        let accepted = self.worker.resource.write(&call, name, token, is_exclusive).await;
        self.worker.history.note(What::Wrote { call, token, accepted, is_stale });
    }

    /// Writes to the ledger in a transaction under the lease.
    async fn transact(&self, random: &mut StdRng, ttl_ms: u64) {
        // Permits have none.
        if !self.lease.name().starts_with("lease:") {
            return;
        }
        let most = if random.random_bool(0.1) { ttl_ms * 3 / 2 } else { 150 };
        let pause = Duration::from_millis(random.random_range(0..most));
        let transaction = format!("{}:{}", self.call, random.random::<u32>());
        if self.worker.is(Control::UnguardedTransaction) {
            tokio::spawn(unguarded(self.worker.database.clone(), self.line(&transaction)));
            return;
        }
        let in_own_session = random.random_bool(0.5);
        let committing = self.commit(&transaction, pause, in_own_session);
        let (end, text) = match tokio::time::timeout(PATIENCE, committing).await {
            Ok(Ok(())) => (TransactionEnd::Committed, String::new()),
            Ok(Err(error @ Error::CommitUnknown { .. })) => {
                (TransactionEnd::Unknown, error.to_string())
            }
            Ok(Err(error)) => (TransactionEnd::NotCommitted, error.to_string()),
            Err(_) => (TransactionEnd::Unknown, "dropped by its caller".to_owned()),
        };
        let call = self.call.clone();
        self.worker.history.note(What::Transacted { call, transaction, end, text });
    }

    async fn commit(
        &self,
        transaction: &str,
        pause: Duration,
        in_own_session: bool,
    ) -> Result<(), Error> {
        let database = &self.worker.database;
        let mut session = database.client().start_session().await?;
        let mut open = match in_own_session {
            true => self.lease.transaction_in(&mut session).await?,
            false => self.lease.transaction().await?,
        };
        let ledger = database.collection::<Document>(LEDGER);
        ledger.insert_one(self.line(transaction)).session(&mut open).await?;
        tokio::time::sleep(pause).await;
        open.commit().await
    }

    /// The line that a transaction writes.
    fn line(&self, transaction: &str) -> Document {
        doc! { "_id": transaction, "call": &self.call, "name": self.lease.name() }
    }

    async fn let_go(self, how: Letting) {
        let Holder { worker, lease, call, .. } = self;
        worker.history.note(What::Releasing { call: call.clone(), how });
        let result = match how {
            Letting::Drop => return drop(lease),
            Letting::Release => lease.release().await,
        };
        let (outcome, text) = match result {
            Ok(Released::Released) => (Outcome::Released, String::new()),
            Ok(Released::NotHeld) => (Outcome::NotHeld, String::new()),
            Err(Error::Unknown { reason, .. }) => (Outcome::Unknown, reason),
            Ok(_) => (Outcome::Unknown, String::new()),
            Err(error) => (Outcome::Failed, error.to_string()),
        };
        worker.history.note(What::Released { call, outcome, text });
    }
}
