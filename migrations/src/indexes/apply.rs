//! Applies a plan. Several processes may do so at once.

use std::pin::pin;
use std::time::Duration;

use mongodb::bson::Document;
use tokio::time::{Instant, sleep, timeout};

use super::commands::{Change, look_at_build, read_build};
use super::error::{CANNOT_CONVERT, Error, Failure, Result};
use super::sender::{ask, delays, send};
use super::step::{Action, Step};
use super::{IndexPlan, Needs, look};

/// The time limit of a step. An index build on a large collection takes hours, and giving up gains nothing.
const STEP_DEADLINE: Duration = Duration::from_secs(14 * 24 * 3600);
/// How often the progress of a long step is reported.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often to read again after another process was faster, or after a failover.
const ROUNDS_MAX: usize = 20;

/// The progress of a plan that is being applied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A step begins.
    Started(&'a Step),
    /// A step is running; reported about once a second.
    #[non_exhaustive]
    Waiting {
        /// The step.
        step: &'a Step,
        /// How long the step has been running.
        elapsed: Duration,
        /// The documents done, and all documents; `None` if the server does not tell.
        documents: Option<(u64, u64)>,
    },
    /// A step is done, by this process or by another one.
    Done(&'a Step),
}

impl IndexPlan {
    /// Applies the plan, and checks the result. Changes nothing while there are [obstacles](IndexPlan::obstacles).
    ///
    /// Several processes may do so at once. An index that exists by then is not created again, and an existing index is
    /// changed only if this plan says so. There is no time limit: an index on a large collection takes long, and
    /// `progress` is called meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Blocked`] if an obstacle needs a person's decision; [`Error::MissingPrivilege`] if the user lacks
    /// `createIndex` or `collMod`; [`Error::MongoDb`] or [`Error::Unknown`] if the database refuses or does not answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, each step may or may not have been done, and the server finishes those that it has
    /// begun. A new plan shows the state.
    pub async fn apply(&self, mut progress: impl FnMut(Progress<'_>) + Send) -> Result<()> {
        let mut difference = self.difference.clone();
        let mut delays = delays();
        let mut last = None;
        for _ in 0..ROUNDS_MAX {
            if !difference.obstacles.is_empty() {
                return Err(Error::Blocked { problem: difference.problem().unwrap_or_default() });
            }
            if difference.steps.is_empty() {
                return Ok(());
            }
            let is_new = |step: &&Step| step.changes_existing() && !self.steps().contains(step);
            if let Some(step) = difference.steps.iter().find(is_new) {
                return Err(Error::Blocked { problem: step.problem() });
            }
            if let Err((failure, privilege)) =
                self.carry_out(&difference.steps, &mut progress).await
            {
                if !failure.may_look_again() {
                    return Err(failure.explain(privilege, &self.namespace()));
                }
                last = Some(failure);
                sleep(delays.next().unwrap_or(TELL_EVERY)).await;
            }
            difference = look(&self.database, &self.collection, Needs::Everything).await?;
        }
        let problem = "another process keeps changing the indexes".to_owned();
        Err(last.map_or(Error::Blocked { problem }, Error::from))
    }

    async fn carry_out(
        &self,
        steps: &[Step],
        progress: &mut (impl FnMut(Progress<'_>) + Send),
    ) -> Result<(), (Failure, &'static str)> {
        for step in steps {
            progress(Progress::Started(step));
            let privilege = match step.action {
                Action::Create { .. } => "createIndex",
                Action::ChangeExpiry { .. } | Action::MakeUnique => "collMod",
            };
            self.run_step(step, progress).await.map_err(|failure| (failure, privilege))?;
            progress(Progress::Done(step));
        }
        Ok(())
    }

    async fn run_step(
        &self,
        step: &Step,
        progress: &mut (impl FnMut(Progress<'_>) + Send),
    ) -> Result<(), Failure> {
        let running = async {
            match step.action {
                Action::Create { .. } => self.run(step.create(&self.collection)).await,
                Action::ChangeExpiry { .. } => self.change(step, step.expiry()).await,
                Action::MakeUnique => {
                    self.change(step, Change::PrepareUnique(true)).await?;
                    let made = self.change(step, Change::Unique).await;
                    if made.as_ref().is_err_and(|it| it.server_code() == Some(CANNOT_CONVERT)) {
                        // Otherwise this index would refuse duplicates without being declared unique. After any other
                        // failure, another process may be in the middle of the same change.
                        let _ = self.change(step, Change::PrepareUnique(false)).await;
                    }
                    made
                }
            }
        };
        let mut running = pin!(running);
        let started = Instant::now();
        loop {
            match timeout(TELL_EVERY, running.as_mut()).await {
                Ok(result) => return result,
                Err(_elapsed) => progress(Progress::Waiting {
                    step,
                    elapsed: started.elapsed(),
                    documents: self.documents_done().await,
                }),
            }
        }
    }

    async fn change(&self, step: &Step, change: Change) -> Result<(), Failure> {
        self.run(step.change(&self.collection, change)).await
    }

    async fn run(&self, command: Document) -> Result<(), Failure> {
        send(&self.database, command, STEP_DEADLINE).await.map(drop)
    }

    async fn documents_done(&self) -> Option<(u64, u64)> {
        let command = look_at_build(self.database(), &self.collection);
        let admin = self.database.client().database("admin");
        ask(&admin, command, TELL_EVERY, |reply| Some(read_build(reply))).await.ok()?
    }
}
