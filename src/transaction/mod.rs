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
mod running;
mod session;
#[cfg(feature = "memory")]
mod simulated;

use std::fmt;
use std::marker::PhantomData;
use std::mem;

use mongodb::ClientSession;

use self::begin::begin;
use self::open::Open;
use self::running::Running;
use self::session::{Session, check_client};
use crate::error::{Error, Result};
use crate::lease::Lease;

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
/// while its owner is busy. Its next operation fails, and `commit` says why. Where none had reached the server
/// before the loss, the first one still begins a transaction; `commit` or the drop aborts that.
#[must_use = "a transaction that is dropped is aborted"]
#[clippy::has_significant_drop]
pub struct Transaction<'a> {
    running: Running<ClientSession>,
    /// The caller's variable, which gets its session back.
    borrowed: Option<&'a mut ClientSession>,
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
    /// A renewal that is under way is awaited first. If the transaction guards last, nothing is sent until its first
    /// operation; if that is dropped before it has returned, drop the transaction too.
    ///
    /// # Errors
    /// - [`Error::Lost`] if the lease is no longer held, and [`Error::TransactionTooLong`] if that is because of a
    ///   transaction of its own.
    /// - [`Error::Unsupported`], before anything is sent: on a standalone server, with leases in memory, and for a
    ///   lease that others may [hold too](Lease::is_shared).
    /// - [`Error::Damaged`] if the expiry in the lease's document is no longer a date.
    /// - [`Error::MongoDb`] or [`Error::Unknown`] if it guards first, and the database refused that, or did not answer
    ///   in the time of two attempts (10 s by default); and [`Error::MongoDb`] if the driver begins no transaction.
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
        let running = Running::new(begun).map_err(|(_, error)| error)?;
        Ok(Transaction { running, borrowed: None, lease: PhantomData })
    }

    /// Begins the same transaction in a session of the caller's. It must be of the client of the manager's database,
    /// and have no transaction in progress.
    ///
    /// The session comes back with the answer of [`commit`](Transaction::commit). After [`Error::Lost`], and where no
    /// answer comes (the transaction is dropped, a future of its is dropped, or the database does not answer),
    /// `session` may be a new one of the same client, without the options of the former.
    ///
    /// # Errors
    /// As [`transaction`](Lease::transaction); [`Error::InvalidOption`] if the session cannot begin a transaction, and
    /// [`Error::MongoDb`] if it is of another client.
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
        check_client(session, &open).await?;
        let begun = begin(open, mem::replace(session, spare)).await.ok_or_else(no_answer)?;
        match Running::new(begun) {
            Ok(running) => Ok(Transaction { running, borrowed: Some(session), lease: PhantomData }),
            Err((former, error)) => {
                *session = former;
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

impl Transaction<'_> {
    /// The session, for session cursors and for what takes a `&mut ClientSession`. Other operations take
    /// `.session(&mut tx)`.
    ///
    /// Do not end the transaction by it: `commit_transaction` commits **without the lease**, and
    /// [`commit`](Transaction::commit) then fails with [`Error::InvalidOption`].
    pub fn session(&mut self) -> &mut ClientSession {
        self.running.session()
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
    ///   [`transaction`](Lease::transaction) on. It is not transient if the first operation was dropped.
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
        let Transaction { running, borrowed, .. } = self;
        let (session, result) = running.commit().await?;
        if let Some(borrowed) = borrowed {
            *borrowed = session;
        }
        result
    }
}

impl<'t> From<&'t mut Transaction<'_>> for &'t mut ClientSession {
    fn from(transaction: &'t mut Transaction<'_>) -> &'t mut ClientSession {
        transaction.session()
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Transaction");
        shown.field("lease", &self.running.name()).finish_non_exhaustive()
    }
}
