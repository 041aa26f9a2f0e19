//! A transaction under a lease, from its beginning to its commit or its drop.
//!
//! The driver counts a transaction as begun when its first operation has returned, and aborts no other. One whose
//! future was dropped may have begun it all the same. So where no operation of ours has returned, the abort comes after
//! one, in a task that owns the session: if the dropped one arrives later, the server refuses it. (Drivers before 3.6
//! count from the sending on. With those, one that arrives after the abort stays open until the server ends it.)

use std::mem;

use mongo_lease_core::rules::Instant;
use tokio_util::sync::DropGuard;

use super::begin::Begun;
use super::commit::{Committing, finish};
use super::open::Open;
use super::session::Session;
use crate::error::{Error, Result};

/// Dropped before its commit, it is aborted.
pub(super) struct Running<S: Session>(Option<Parts<S>>);

struct Parts<S> {
    // Dropped first: the driver then aborts what it knows of.
    session: S,
    /// When its guard was sent, if it guards first.
    guarded: Option<Instant>,
    aborts_when_lost: DropGuard,
    open: Open,
}

impl<S: Session> Running<S> {
    /// Fails with the session where the transaction has not begun.
    pub(super) fn new(begun: Begun<S>) -> Result<Running<S>, (S, Error)> {
        let Begun { session, open, result } = begun;
        match result {
            Ok(guarded) => {
                let aborts_when_lost = open.abort_when_lost(session.kill(&open));
                Ok(Running(Some(Parts { session, guarded, aborts_when_lost, open })))
            }
            Err(error) => Err((session, error)),
        }
    }

    pub(super) fn session(&mut self) -> &mut S {
        &mut self.0.as_mut().expect("its end takes all of it").session
    }

    pub(super) fn name(&self) -> &str {
        self.0.as_ref().map_or("", |it| it.open.name())
    }

    /// Guards it and commits it. The session comes back with the answer.
    pub(super) async fn commit(mut self) -> Result<(S, Result<()>)> {
        let parts = self.0.take().expect("its end takes all of it");
        let Parts { session, guarded, aborts_when_lost, open } = parts;
        // From here on the transaction is ended by its own session.
        drop(aborts_when_lost);
        finish(Committing::new(session, open, guarded)).await
    }
}

impl<S: Session> Drop for Running<S> {
    fn drop(&mut self) {
        let Some(Parts { mut session, guarded, open, .. }) = self.0.take() else { return };
        if open.engine.runner.is_of_parent() {
            // A copy in a forked child: the transaction is its parent's.
            mem::forget(session);
        } else if guarded.is_none() {
            let under = open.under.clone();
            open.engine.runner.spawn(async move { session.give_up(&under).await });
        }
    }
}
