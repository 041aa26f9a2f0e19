//! Apply: carries a plan out, beside others who do the same.

use std::pin::pin;
use std::time::Duration;

use mongodb::error::ErrorKind;

use super::step::{Action, Step};
use super::{IndexPlan, explain, look, not_migrated};
use crate::clock;
use crate::commands::failure::{Cause, Failure};
use crate::commands::indexes::{Change, ChangeIndex, LookAtBuild};
use crate::error::{Error, Result};
use crate::retry::{self, RetryPolicy};
use crate::rules::backoff::RETRY;
use crate::rules::outcome::Then;
use crate::runner::Runner;

/// How long a step may take. An index on a large collection takes hours, and nothing is gained by giving up on it.
const STEP_DEADLINE: Duration = Duration::from_secs(14 * 24 * 3600);
/// How often a step that takes its time is told of.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// CannotConvertIndexToUnique: there are duplicates.
const CANNOT_CONVERT: i32 = 359;
/// How often to look again after somebody else was quicker, or the database failed over.
const ROUNDS_MAX: usize = 20;

/// What happens while a plan is carried out.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A step begins.
    Started(&'a Step),
    /// A step takes its time; told about once a second.
    #[non_exhaustive]
    Waiting {
        /// The step.
        step: &'a Step,
        /// For how long it has been going on.
        elapsed: Duration,
        /// How many documents are done, of how many; `None` where the server does not tell.
        documents: Option<(u64, u64)>,
    },
    /// A step is done: by us, or by somebody else who was quicker.
    Done(&'a Step),
}

impl IndexPlan {
    /// Carries the plan out, and looks whether that was enough. While there are [obstacles](IndexPlan::obstacles),
    /// nothing is changed.
    ///
    /// Any number of processes may do so at the same time. An index that is there already when its turn comes is not
    /// made again, and nothing that has been there is changed unless this plan says so. There is no deadline: an index
    /// on a large collection takes its time, of which `progress` is told.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`] when something stands in the way that only a person can decide about;
    /// [`Error::MissingPrivilege`] when the user may not do it (`createIndex`, `collMod`); [`Error::MongoDb`] or
    /// [`Error::Unknown`] when the database refuses or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open which steps were done; what the server has begun goes on. A new plan tells.
    pub async fn apply(&self, mut progress: impl FnMut(Progress<'_>) + Send) -> Result<()> {
        let (runner, collection) = (&self.runner, self.collection.as_str());
        let mut difference = self.difference.clone();
        let mut delays = clock::jittered(RETRY);
        let mut last = None;
        for _ in 0..ROUNDS_MAX {
            if !difference.obstacles.is_empty() {
                let problem = difference.problem().unwrap_or_default();
                return Err(not_migrated(runner, collection, problem));
            }
            if difference.steps.is_empty() {
                return Ok(());
            }
            let is_new = |step: &&Step| step.changes_existing() && !self.steps().contains(step);
            if let Some(step) = difference.steps.iter().find(is_new) {
                return Err(not_migrated(runner, collection, step.problem()));
            }
            match self.carry_out(&difference.steps, &mut progress).await {
                Ok(()) => {}
                Err((failure, privilege)) => {
                    if !may_look_again(&failure) {
                        return Err(explain(failure, privilege, runner, collection));
                    }
                    last = Some(failure);
                    let delay = delays.next().unwrap_or(RETRY.longest);
                    clock::sleep_until(clock::now().after(delay)).await;
                }
            }
            difference = look(runner, collection).await?;
        }
        Err(last.map_or_else(|| changed_meanwhile(self), Error::from))
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
        let deadline = clock::now().after(STEP_DEADLINE);
        let running = async {
            match step.action {
                Action::Create { .. } => {
                    retry::run_once(&self.runner, step.create(&self.collection), deadline).await
                }
                Action::ChangeExpiry { .. } => self.change(step, step.expiry()).await,
                Action::MakeUnique => {
                    self.change(step, Change::PrepareUnique(true)).await?;
                    let made = self.change(step, Change::Unique).await;
                    if made.as_ref().is_err_and(|it| it.server_code() == Some(CANNOT_CONVERT)) {
                        // Or duplicates would be refused from now on, by an index that does not say so. After
                        // any other failure somebody else may be half-way through the same.
                        let _ = self.change(step, Change::PrepareUnique(false)).await;
                    }
                    made
                }
            }
        };
        let mut running = pin!(running);
        let started = clock::now();
        loop {
            let tell_at = clock::now().after(TELL_EVERY);
            match clock::before(tell_at, running.as_mut()).await {
                Some(result) => return result,
                None => progress(Progress::Waiting {
                    step,
                    elapsed: clock::now().since(started),
                    documents: self.documents_done().await,
                }),
            }
        }
    }

    async fn change(&self, step: &Step, change: Change) -> Result<(), Failure> {
        let command: ChangeIndex = step.change(&self.collection, change);
        retry::run_once(&self.runner, command, clock::now().after(STEP_DEADLINE)).await
    }

    async fn documents_done(&self) -> Option<(u64, u64)> {
        let command = LookAtBuild {
            database: self.database().to_owned(),
            collection: self.collection.clone(),
        };
        let policy = RetryPolicy::one_attempt(TELL_EVERY);
        let admin = Runner::new(self.runner.database().client().database("admin"), "", 1).ok()?;
        let (done, total) = retry::run(&admin, command, policy).await.ok()?.reply?;
        Some((u64::try_from(done).ok()?, u64::try_from(total).ok()?))
    }
}

/// Whether another look may show that it is done, or what stands in the way of it.
fn may_look_again(failure: &Failure) -> bool {
    if let Cause::Driver(error) = &failure.cause
        && let ErrorKind::ServerSelection { .. } = error.kind.as_ref()
    {
        // The driver has waited for a server as long as it was told to.
        return false;
    }
    match failure.server_code() {
        // NamespaceNotFound, IndexNotFound, NamespaceExists, IndexAlreadyExists, InvalidOptions (somebody else has
        // taken the preparation back), IndexOptionsConflict, IndexKeySpecsConflict.
        Some(26 | 27 | 48 | 68 | 72 | 85 | 86) => true,
        // ConflictingOperationInProgress, CommandFailed (the index was changed while it was being changed),
        // IndexBuildAborted, CannotConvertIndexToUnique, DuplicateKey.
        Some(117 | 125 | 276 | CANNOT_CONVERT | 11_000) => true,
        Some(_) | None => failure.outcome.then == Then::Retry,
    }
}

fn changed_meanwhile(plan: &IndexPlan) -> Error {
    let problem = "somebody else keeps changing the indexes".to_owned();
    not_migrated(&plan.runner, &plan.collection, problem)
}
