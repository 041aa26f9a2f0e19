//! Sends one command in a slot, with the time limits that the server gets.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::time::Duration;

use mongo_lease_core::commands::{Command, applied};
use mongo_lease_core::rules::{Advice, Applied, Instant, RETRY};
use mongodb::Database;
use mongodb::bson::Document;
use mongodb::options::{ReadPreference, RunCommandOptions, SelectionCriteria};

use super::attempt::ServerTimes;
#[cfg(feature = "memory")]
use super::memory;
use super::slots::Occupied;
use super::{
    AppliedResult, AttemptLimits, AttemptResult, AttemptTime, Backend, BackendCommand, Runner,
};
use crate::clock::Clock;
use crate::failure::{decode_failure, driver_failure, not_confirmed};
use crate::mistake::{Mistake, is_made};

impl Runner {
    /// Sends the command. A server without majority reads gets a read that may do without them with level `local`.
    ///
    /// Such a read can show a write that a failover undoes. None of these reads makes a lease valid: they report, or
    /// end what this process believes in, or find out which documents need another command.
    async fn send_or_read_locally<C: Command>(
        &self,
        database: &Database,
        command: &C,
        document: Document,
        sent: Instant,
    ) -> AppliedResult<C::Reply> {
        let local = if command.needs_majority_read() { None } else { local_read(&document) };
        match local {
            Some(local) if self.has_no_majority_reads() => {
                send(database, command, local, sent).await
            }
            local => {
                let answer = send(database, command, document, sent).await;
                if !matches!(&answer, Err(failure) if failure.is_no_majority_read()) {
                    return answer;
                }
                self.shared.has_no_majority_reads.store(true, Ordering::Relaxed);
                match local {
                    Some(local) => send(database, command, local, sent).await,
                    None => answer,
                }
            }
        }
    }
}

/// The right to have one command in progress, from one after the other.
pub(crate) struct Slot {
    pub(super) runner: Runner,
    pub(super) _occupied: Occupied,
}

impl Slot {
    pub(crate) fn clock(&self) -> &Clock {
        &self.runner.shared.clock
    }

    /// Sends a query until it is answered, or its time is over.
    pub(crate) async fn run_until_answered<C: BackendCommand>(
        &self,
        query: &C,
        time: AttemptTime,
    ) -> AttemptResult<C::Reply> {
        let clock = &self.runner.shared.clock;
        let mut delays = clock.jittered(RETRY);
        loop {
            let answer = self.run(query, time.into()).await;
            let again_at = clock.now().after(delays.next().unwrap_or(RETRY.longest));
            match answer {
                Err(failure)
                    if failure.outcome.advice == Advice::Retry && again_at < time.deadline =>
                {
                    clock.sleep_until(again_at).await;
                }
                answer => return answer,
            }
        }
    }

    /// Sends one command, and waits for a majority in all of its time. See [`Slot::apply`].
    pub(crate) async fn run<C: BackendCommand>(
        &self,
        command: &C,
        limits: AttemptLimits,
    ) -> AttemptResult<C::Reply> {
        match self.send(command, limits, false).await? {
            Applied::Confirmed(reply) => Ok(reply),
            Applied::Unconfirmed(_, unconfirmed) => Err(not_confirmed(unconfirmed)),
        }
    }

    /// Sends one command in the caller's task, which must be one of the runner's, and waits for its answer however long
    /// the database takes. The slot is occupied until then: otherwise ever more commands could pile up. A write that no
    /// majority has soon is answered before, as applied and unconfirmed.
    pub(crate) async fn apply<C: BackendCommand>(
        &self,
        command: &C,
        limits: AttemptLimits,
    ) -> AppliedResult<C::Reply> {
        let confirms = C::IS_TRACED && !self.runner.has_no_majority_reads();
        self.send(command, limits, confirms).await
    }

    async fn send<C: BackendCommand>(
        &self,
        command: &C,
        limits: AttemptLimits,
        confirms: bool,
    ) -> AppliedResult<C::Reply> {
        let AttemptLimits { time, pace, is_blocked } = limits;
        let shared = &self.runner.shared;
        // Whole, so that what is read back from the document equals what this process remembers. Rounded down, validity
        // counts from no later than the sending.
        let sent = shared.clock.now().whole_micros();
        let pace = pace.as_ref().or(shared.pace.as_ref());
        let at_most = pace.map_or(Duration::MAX, |pace| pace.bound(is_blocked));
        let delay = confirms.then(|| shared.confirmer.delay());
        let times = ServerTimes::new(time.over(sent).since(sent), at_most, delay);
        let answer = match &shared.backend {
            Backend::Server(database) => {
                let mut document = command.build(&shared.collection, sent);
                times.insert_into(&mut document);
                self.runner.send_or_read_locally(database, command, document, sent).await
            }
            #[cfg(feature = "memory")]
            Backend::Memory(store) => {
                memory::attempt(store, &shared.collection, command, sent, times).await
            }
        };
        let now = shared.clock.now();
        // A read that waits for a majority says nothing about locks.
        if let Some(pace) = pace
            && command.sees_all_until().is_none()
        {
            pace.answered(now, sent, &answer);
        }
        if let Err(failure) = &answer {
            shared.unknown_codes.note(now, failure);
        }
        match answer {
            Ok(Applied::Confirmed(reply)) => {
                if shared.confirmer.is_late() && command.has_written(&reply) {
                    shared.confirmer.confirmed_in_time();
                }
                Ok(Applied::Confirmed(reply))
            }
            // It counts. How late the majority is matters to those that wait for a promotion.
            Ok(Applied::Unconfirmed(reply, why)) if !command.relies_on(&reply).is_any() => {
                self.runner.measure(why.at, sent, command.has_written(&reply));
                Ok(Applied::Confirmed(reply))
            }
            Ok(Applied::Unconfirmed(reply, _)) if is_made(Mistake::BelievedAtOnce) => {
                Ok(Applied::Confirmed(reply))
            }
            answer => answer,
        }
    }
}

/// The command with a read of the primary's newest data, if it reads majority-committed data. A time after which it has
/// to read stays.
fn local_read(command: &Document) -> Option<Document> {
    const READ_CONCERN: &str = "readConcern";
    const LEVEL: &str = "level";
    if command.get_document(READ_CONCERN).ok()?.get_str(LEVEL).ok()? != "majority" {
        return None;
    }
    let mut local = command.clone();
    local.get_document_mut(READ_CONCERN).ok()?.insert(LEVEL, "local");
    Some(local)
}

async fn send<C: Command>(
    database: &Database,
    command: &C,
    document: Document,
    sent: Instant,
) -> AppliedResult<C::Reply> {
    // A read must not go to a secondary, whatever the client's read preference is.
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let options = RunCommandOptions::builder().selection_criteria(primary).build();
    let running = database.run_command(document).with_options(options);
    let reply = running.await.map_err(driver_failure)?;
    applied(command, &reply, sent).map_err(decode_failure)
}
