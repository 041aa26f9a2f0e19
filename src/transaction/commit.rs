//! Guards and commits a transaction, in a task that owns its session.

use mongo_lease_core::rules::{
    COMMIT_TIMEOUT, Commit, CommitAction, CommitAnswer, HoldEvent, Instant, RETRY,
};

use super::guard::{Unguarded, guard};
use super::open::{Open, UnderLease};
use super::session::Session;
use crate::error::{Error, Result};
use crate::runner::{Pending, Stage};

pub(super) struct Committing<S> {
    session: S,
    open: Open,
    /// When its guard was sent, if it has one.
    guarded: Option<Instant>,
    /// Whether an operation of ours has returned in it.
    has_begun: bool,
}

impl<S: Session> Committing<S> {
    pub(super) fn new(session: S, open: Open, guarded: Option<Instant>) -> Committing<S> {
        Committing { session, open, guarded, has_begun: guarded.is_some() }
    }

    /// Ends the transaction, and gives the session back. Before its `commitTransaction` the caller may withdraw it by
    /// the stage.
    pub(super) async fn run(mut self, stage: &Stage) -> (S, Result<()>) {
        let result = match self.guard_last(stage).await {
            Ok(guarded) => self.commit(guarded).await,
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        };
        (self.session, result)
    }

    /// Makes sure that the transaction is guarded, and that the lease is held.
    async fn guard_last(&mut self, stage: &Stage) -> Result<Instant> {
        self.check_in_progress().await?;
        self.open.check()?;
        let guarded = match self.guarded {
            Some(guarded) => guarded,
            None => self.write_guard().await?,
        };
        self.open.check()?;
        match stage.send(self.open.engine.clock().now()) {
            true => Ok(guarded),
            // Nobody waits for the answer.
            false => Err(Error::ShutDown),
        }
    }

    async fn write_guard(&mut self) -> Result<Instant> {
        let guarded = guard(&self.open, &mut self.session).await;
        self.has_begun = true;
        match guarded {
            Err(Unguarded::Conflict(_)) if self.open.is_too_long() => Err(self.open.too_long()),
            Err(Unguarded::Conflict(error)) => {
                // The next transaction makes the others wait.
                self.open.holding.guard_first(true);
                Err(error)
            }
            guarded => Ok(guarded?),
        }
    }

    /// Returns an error if the session's user has ended the transaction: a guard would be a write of its own.
    async fn check_in_progress(&mut self) -> Result<()> {
        if self.session.is_in_progress().await {
            return Ok(());
        }
        let reason = "its transaction was ended by a call on the session, which guards nothing; \
                      what `commit_transaction` committed there is committed without the lease";
        Err(Error::invalid_option("session", reason))
    }

    async fn abort(&mut self) {
        match self.has_begun {
            true => self.session.abort().await,
            false => self.session.give_up(&self.open).await,
        }
        if self.open.guards_first {
            self.open.note_blocked(false);
        }
    }

    /// Commits, and repeats only that until it is known: the transaction may be committed already, and then the lease
    /// counts no more.
    async fn commit(&mut self, guarded: Instant) -> Result<()> {
        let clock = self.open.engine.clock().clone();
        let mut commit = Commit::sent(clock.now());
        let mut delays = clock.jittered(RETRY);
        loop {
            let committed = self.session.commit().await;
            let answer = match &committed {
                Ok(()) => CommitAnswer::Committed,
                Err((answer, _)) => *answer,
            };
            let pause = delays.next().unwrap_or(RETRY.longest);
            match commit.on(clock.now(), answer, pause) {
                CommitAction::Repeat(pause) => clock.sleep(pause).await,
                CommitAction::Committed => {
                    self.committed(guarded);
                    return Ok(());
                }
                CommitAction::NotCommitted => {
                    return committed.map_err(|(_, error)| error.into());
                }
                CommitAction::GiveUp => {
                    let name = self.open.name().to_owned();
                    return Err(Error::CommitUnknown {
                        name,
                        source: committed.err().map(|(_, error)| error),
                    });
                }
            }
        }
    }

    /// The guard has prolonged the lease.
    fn committed(&self, guarded: Instant) {
        let UnderLease { holding, engine, .. } = &self.open.under;
        holding.guard_first(false);
        engine.hints.blocked.note(self.open.name(), false);
        let _ = holding.on(HoldEvent::Renewed(guarded), None);
    }
}

/// Ends the transaction in a task that owns its session, which comes back with the answer.
pub(super) async fn finish<S: Session>(committing: Committing<S>) -> Result<(S, Result<()>)> {
    let (under, (sender, stage, pending)) = (committing.open.under.clone(), Pending::pair());
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
