//! Transactions under a lease: none commits after the lease was lost.
//!
//! 1. A transaction commits only if its guard, a write to the lease's document within it, matched this grant. So it and
//!    every other grant exclude each other on the server, and no clock counts.
//! 2. `Lost` is said only while nothing was sent that may commit. Afterwards only the commit is repeated.
//! 3. Its own operations run in tasks that own the session: dropped by its caller, a transaction is committed or
//!    aborted, and never left open.
//!
//! The first try guards last, so that the lease's document is blocked for a round trip. Any other write to the document
//! makes that guard conflict: then the next transaction guards first, and the others wait.

mod begin;
mod commit;
mod guard;
mod open;
mod session;
#[cfg(feature = "memory")]
mod simulated;

use std::fmt;
use std::marker::PhantomData;
use std::mem;

use mongo_lease_core::rules::{COMMIT_TIMEOUT, Instant};
use mongodb::ClientSession;
use tokio_util::sync::DropGuard;

use self::begin::{Begun, begin};
use self::commit::Committing;
use self::open::{Open, UnderLease};
use self::session::Session;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::runner::Pending;

/// A transaction that commits only if its lease was held without a break: made by [`Lease::transaction`].
///
/// Give it to the driver's operations as their session. [`commit`](Transaction::commit) guards and commits it; dropped,
/// it is aborted. After an error of an operation, drop it: the server may have aborted it already.
///
/// # Guarantees
/// No transaction that `commit` commits is committed after another process was granted the lease, whatever any clock
/// shows and however long this process stood still.
///
/// It does not cover `commit_transaction` on the [session](Transaction::session): that commits without the lease.
///
/// # Renewals
/// While it is open, the lease's own renewals are held back until a third of its validity is left, because they would
/// conflict with it. [`renew`](Lease::renew) is not held back, and makes it conflict.
///
/// # Loss
/// When the lease is lost, or its manager is shut down, the library aborts the transaction on the server, also
/// while its owner is busy. Operations fail from then on, and `commit` says why.
#[must_use = "a transaction that is dropped is aborted"]
#[clippy::has_significant_drop]
pub struct Transaction<'a> {
    // Dropped first: the driver then aborts the transaction.
    session: ClientSession,
    /// The caller's variable, which gets its session back.
    borrowed: Option<&'a mut ClientSession>,
    /// When its guard was sent, if it guards first.
    guarded: Option<Instant>,
    aborts_when_lost: DropGuard,
    open: Open,
    lease: PhantomData<&'a Lease>,
}

impl Lease {
    /// Begins a transaction that commits only if this lease was held without a break.
    ///
    /// Its session is one of the client of the manager's database: the collections must be of that client, or the
    /// driver refuses the operation. It has read concern `local`, write concern `majority` with the journal, and read
    /// preference `primary`, whatever the client has.
    ///
    /// The first try writes to the lease's document at the commit, and blocks it for a round trip. If something else
    /// has written there meanwhile, such as a process that joins the queue, `commit` fails with a conflict. The lease's
    /// next transaction then writes there first: others wait until it ends, and the second try commits.
    ///
    /// A renewal that is under way is awaited first. Then one small operation goes to the server.
    ///
    /// # Errors
    /// - [`Error::Lost`] if the lease is no longer held, and [`Error::TransactionTooLong`] if that is because of a
    ///   transaction of its own.
    /// - [`Error::Unsupported`], before anything is sent: on a standalone server, with leases in memory, and for a
    ///   lease that others may [hold too](Lease::is_shared).
    /// - [`Error::Damaged`] if the expiry in the lease's document is no longer a date.
    /// - [`Error::MongoDb`] or [`Error::Unknown`] if the database refused, or did not answer in the time of two
    ///   attempts (10 s by default).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: what has begun on the server is aborted.
    ///
    /// # Examples
    /// ```no_run
    /// # use mongo_lease::mongodb::{Collection, bson::Document};
    /// use mongo_lease::{Lease, Result};
    ///
    /// async fn store(lease: &Lease, payments: &Collection<Document>, receipt: &Document) -> Result<()> {
    ///     // A conflict is transient, and goes away; a loss is not, and ends the loop.
    ///     loop {
    ///         match store_once(lease, payments, receipt).await {
    ///             Err(error) if error.is_transient() => {}
    ///             result => return result,
    ///         }
    ///     }
    /// }
    ///
    /// async fn store_once(lease: &Lease, payments: &Collection<Document>, receipt: &Document) -> Result<()> {
    ///     let mut tx = lease.transaction().await?;
    ///     payments.insert_one(receipt).session(&mut tx).await?;
    ///     tx.commit().await
    /// }
    /// ```
    pub async fn transaction(&self) -> Result<Transaction<'_>> {
        self.check_transactions()?;
        let open = Open::begin(self).await?;
        let mut session = open.database()?.client().start_session().await?;
        session.start().await?;
        let begun = begin(open, session).await.ok_or_else(no_answer)?;
        let Begun { session, open, result } = begun;
        Ok(Transaction::new(session, None, open, result?))
    }

    /// Begins the same transaction in a session of the caller's. It must be of the client of the manager's database,
    /// and have no transaction in progress.
    ///
    /// The session comes back with the answer of [`commit`](Transaction::commit). After [`Error::Lost`], and where no
    /// answer comes (the transaction is dropped, a future of its is dropped, or the database does not answer),
    /// `session` may be a new one of the same client, without the options of the former.
    ///
    /// # Errors
    /// As [`transaction`](Lease::transaction); and [`Error::InvalidOption`] if the session cannot begin a transaction.
    ///
    /// # Cancel safety
    /// As [`transaction`](Lease::transaction).
    ///
    /// # Examples
    /// ```no_run
    /// # use mongo_lease::mongodb::{ClientSession, Collection, bson::{Document, doc}};
    /// # async fn example(
    /// #     lease: mongo_lease::Lease, mut session: ClientSession, payments: Collection<Document>,
    /// # ) -> mongo_lease::Result<()> {
    /// let mut tx = lease.transaction_in(&mut session).await?;
    /// payments.insert_one(doc! { "invoice": 42 }).session(&mut tx).await?;
    /// tx.commit().await?;
    /// // The session has seen the commit: a read in it finds the payment.
    /// payments.find_one(doc! { "invoice": 42 }).session(&mut session).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn transaction_in<'a>(
        &'a self,
        session: &'a mut ClientSession,
    ) -> Result<Transaction<'a>> {
        self.check_transactions()?;
        let open = Open::begin(self).await?;
        let mut spare = session.client().start_session().await?;
        if let Some(time) = session.cluster_time() {
            spare.advance_cluster_time(time);
        }
        if let Some(time) = session.operation_time() {
            spare.advance_operation_time(time);
        }
        session.start().await?;
        let begun = begin(open, mem::replace(session, spare)).await.ok_or_else(no_answer)?;
        match begun.result {
            Ok(guarded) => Ok(Transaction::new(begun.session, Some(session), begun.open, guarded)),
            Err(error) => {
                *session = begun.session;
                Err(error)
            }
        }
    }

    /// Returns an error where there are no transactions under a lease.
    fn check_transactions(&self) -> Result<()> {
        self.check_exclusive("transaction", "transactions of two holders would conflict")?;
        self.engine.runner.database()?;
        let missing = "a transaction under a lease needs a replica set";
        let has_them = self.engine.topology.has_oplog;
        if has_them { Ok(()) } else { Err(Error::unsupported(missing)) }
    }
}

fn no_answer() -> Error {
    let reason = "the database did not begin a transaction in time; nothing was written".to_owned();
    Error::Unknown { reason, source: None }
}

impl<'a> Transaction<'a> {
    fn new(
        session: ClientSession,
        borrowed: Option<&'a mut ClientSession>,
        open: Open,
        guarded: Option<Instant>,
    ) -> Transaction<'a> {
        let aborts_when_lost = open.abort_when_lost(open.kill(session.id()));
        Transaction { session, borrowed, guarded, aborts_when_lost, open, lease: PhantomData }
    }

    /// The session, for session cursors and for what takes a `&mut ClientSession`. Other operations take
    /// `.session(&mut tx)`.
    ///
    /// Do not end the transaction by it: `commit_transaction` commits **without the lease**, and
    /// [`commit`](Transaction::commit) then fails with [`Error::InvalidOption`].
    pub fn session(&mut self) -> &mut ClientSession {
        &mut self.session
    }

    /// Commits the transaction, if the lease is still held.
    ///
    /// # Errors
    /// Nothing was committed, and the transaction is aborted:
    ///
    /// - [`Error::Lost`] if the lease is no longer held. After the commit was sent, a loss is no error.
    /// - [`Error::TransactionTooLong`] if the transaction was open for longer than the lease is valid without a
    ///   renewal. Do not repeat it as it is.
    /// - [`Error::MongoDb`], [transient](Error::is_transient), for a conflict with another write to the lease's
    ///   document, and for whatever else the server aborts a transaction for. Repeat all of it, from
    ///   [`transaction`](Lease::transaction) on.
    /// - [`Error::Damaged`] if the expiry in the lease's document is no longer a date.
    /// - [`Error::InvalidOption`] if the transaction was ended by a call on the [session](Transaction::session).
    ///
    /// **It may have been committed**: [`Error::CommitUnknown`]. The commit was repeated, by the driver's rules, for up
    /// to 30 s, and no answer has told. It is not transient: to repeat the transaction may carry it out twice.
    ///
    /// # Cancel safety
    /// If the future is dropped before the commit is sent, the transaction is aborted. After that the commit goes on:
    /// all of it is done, or nothing.
    pub async fn commit(self) -> Result<()> {
        let Transaction { session, borrowed, guarded, aborts_when_lost, open, .. } = self;
        // From here on the transaction is ended by its own session.
        drop(aborts_when_lost);
        let (session, result) = finish(session, open, guarded).await?;
        if let Some(borrowed) = borrowed {
            *borrowed = session;
        }
        result
    }
}

/// Ends the transaction in a task that owns its session, which comes back with the answer.
async fn finish<S: Session>(
    session: S,
    open: Open,
    guarded: Option<Instant>,
) -> Result<(S, Result<()>)> {
    let (under, (sender, stage, pending)) = (open.under.clone(), Pending::pair());
    let committing = Committing { session, open, guarded };
    under.engine.runner.spawn(async move {
        let _ = sender.send(Ok(committing.run(&stage).await));
    });
    ended(&under, pending).await
}

/// Waits for the end of a commit: for as long as the lease is valid and the commit not sent, and for its bound after
/// that.
async fn ended<S>(
    under: &UnderLease,
    mut pending: Pending<(S, Result<()>)>,
) -> Result<(S, Result<()>)> {
    let clock = under.engine.clock();
    let mut is_lost = false;
    loop {
        let deadline = pending.sent_at().unwrap_or(clock.now()).after(COMMIT_TIMEOUT);
        tokio::select! {
            biased;
            answer = &mut pending => match answer {
                Ok(ended) => return Ok(ended),
                Err(_) if pending.was_sent_or_withdraw() => break,
                // The runtime of the manager's tasks is gone.
                Err(_) => return Err(Error::ShutDown),
            },
            () = under.holding.lost().cancelled(), if !is_lost => is_lost = true,
            () = clock.sleep_until(deadline) => {}
        }
        if is_lost && !pending.was_sent_or_withdraw() {
            under.check()?;
        }
        if pending.sent_at().is_some_and(|sent| clock.now() >= sent.after(COMMIT_TIMEOUT)) {
            break;
        }
    }
    Err(Error::CommitUnknown { name: under.name().to_owned(), source: None })
}

impl<'t> From<&'t mut Transaction<'_>> for &'t mut ClientSession {
    fn from(transaction: &'t mut Transaction<'_>) -> &'t mut ClientSession {
        transaction.session()
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Transaction");
        shown.field("lease", &self.open.name()).finish_non_exhaustive()
    }
}
