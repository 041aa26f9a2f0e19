//! A transaction under a lease, as long as it is open.

use std::ops::Deref;
use std::sync::Arc;

use mongo_lease_core::commands::KillSession;
use mongo_lease_core::rules::{HoldEvent, Instant};
use mongodb::Database;
use mongodb::bson::Document;
use mongodb::options::{ReadPreference, RunCommandOptions, SelectionCriteria};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hold::{AgendaKey, Holding};
use crate::lease::Lease;

/// Holds the lease's renewals back until it is dropped.
pub(super) struct Open {
    pub(super) under: UnderLease,
    number: AgendaKey,
}

/// A transaction's lease, and how it stands to that. Cheap to clone.
#[derive(Clone)]
pub(super) struct UnderLease {
    pub(super) engine: Arc<Engine>,
    pub(super) holding: Arc<Holding>,
    /// Whether the transaction writes to the lease's document first, and blocks it from then on.
    pub(super) guards_first: bool,
    began: Instant,
}

impl Open {
    /// Holds the renewals back, and waits for one that is under way: it would write behind the transaction's snapshot.
    pub(super) async fn begin(lease: &Lease) -> Result<Open> {
        let (engine, holding) = (Arc::clone(&lease.engine), Arc::clone(&lease.holding));
        let began = engine.clock().now();
        // A loss is reported by the check below.
        let _ = holding.on(HoldEvent::TransactionBegun, None);
        let under = UnderLease { engine, holding, guards_first: false, began };
        let mut open = Open { under, number: lease.number };
        open.check()?;
        open.holding.no_renewal_under_way().await;
        open.check()?;
        open.under.guards_first = open.holding.guards_first();
        open.under.began = open.engine.clock().now();
        Ok(open)
    }
}

impl UnderLease {
    pub(super) fn database(&self) -> Result<&Database> {
        self.engine.runner.database()
    }

    pub(super) fn name(&self) -> &str {
        self.holding.key.name()
    }

    /// Returns an error if the lease is lost.
    pub(super) fn check(&self) -> Result<()> {
        let Err(lost) = self.holding.check() else { return Ok(()) };
        if self.guards_first {
            self.holding.outlived();
        }
        Err(if self.holding.was_outlived() { self.too_long() } else { lost })
    }

    /// Whether the transaction has been open for longer than the lease is valid without a renewal.
    pub(super) fn is_too_long(&self) -> bool {
        self.engine.clock().now().since(self.began) >= self.holding.timing.validity()
    }

    pub(super) fn too_long(&self) -> Error {
        let (name, ttl) = (self.name().to_owned(), self.holding.timing.ttl);
        Error::TransactionTooLong { name, ttl }
    }

    /// Notes that the document is blocked from now on, or is not any more.
    pub(super) fn note_blocked(&self, is_blocked: bool) {
        let event = match is_blocked {
            true => HoldEvent::Guarded,
            false => HoldEvent::DocumentWritten(self.engine.clock().now()),
        };
        let _ = self.holding.on(event, None);
        self.engine.hints.blocked.note(self.name(), is_blocked);
    }

    /// Aborts the transaction of the session with this id. The session is in its user's hands, who may be busy, so the
    /// server is told by the id.
    pub(super) fn kill(&self, session: &Document) -> impl Future<Output = ()> + Send + use<> {
        let (runner, kill) = (self.engine.runner.clone(), KillSession { id: session.clone() });
        async move {
            let Ok(database) = runner.database() else { return };
            let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
            let options = RunCommandOptions::builder().selection_criteria(primary).build();
            // Where the server refuses it, the transaction ends when it is dropped.
            let _ = database.run_command(kill.build()).with_options(options).await;
        }
    }

    /// Aborts the transaction by `kill` as soon as the lease is lost, until the result is dropped.
    pub(super) fn abort_when_lost(
        &self,
        kill: impl Future<Output = ()> + Send + 'static,
    ) -> DropGuard {
        let over = CancellationToken::new();
        let holding = Arc::clone(&self.holding);
        let (is_over, guards_first) = (over.clone(), self.guards_first);
        self.engine.runner.spawn(async move {
            tokio::select! {
                biased;
                () = is_over.cancelled() => return,
                () = holding.lost().cancelled() => {}
            }
            if guards_first {
                holding.outlived();
            }
            kill.await;
        });
        over.drop_guard()
    }
}

impl Deref for Open {
    type Target = UnderLease;

    fn deref(&self) -> &UnderLease {
        &self.under
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.holding.on(HoldEvent::TransactionEnded, None);
        self.engine.renewer.reschedule(self.number, &self.holding);
    }
}
