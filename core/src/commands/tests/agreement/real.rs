//! Runs the same steps on a real server, with the library's own commands.

use std::any::type_name;

use crate::bson::{self, DateTime, Timestamp, doc};
use crate::rules::timing::Timing;
use crate::rules::tombstone::{PREFIX, is_tombstone};
use mongodb::Database;

use super::changes::Change;
use super::small::{self, Key, Value};
use super::steps::{Answer, LIFE, Step, Target, first_attempt};
use super::texts::{call, duration, grant_id, held_text, instant, text};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use crate::commands::release::{Delete, End, EndLater, GrantMatch, ReleaseTarget, Tombstone};
use crate::commands::renew::{GrantKey, Guard, RenewMany, RenewalTarget, Resume};
use crate::commands::renew_holders::RenewHolders;
use crate::commands::tests::fresh_values;

pub(super) const COLLECTION: &str = "locks";

/// The answer to a step, and the token of a grant; or why a reply could not be decoded.
pub(super) type Replied = Result<(Answer, Option<Timestamp>), DecodeError>;

/// The real server.
pub(super) struct Real {
    pub(super) database: Database,
    /// The time at the start of the test, which is the specification's time throughout.
    pub(super) began: i64,
    /// A deliberate change to a command, which the comparison has to find.
    change: Option<Change>,
}

impl Real {
    pub(super) async fn new(database: &Database, change: Option<Change>) -> Real {
        let unique = doc! { "key": { "name": 1 }, "name": "name_1", "unique": true };
        let create = doc! { "createIndexes": COLLECTION, "indexes": [unique] };
        database.run_command(create).await.unwrap();
        Real { database: database.clone(), began: DateTime::now().timestamp_millis(), change }
    }

    pub(super) fn now(&self) -> i64 {
        self.began
    }

    /// Runs a step, and returns its answer and the token of a grant. The error is that of the decoder.
    pub(super) async fn take(&self, name: &str, step: &Step, sent: i64) -> Replied {
        match step {
            Step::Acquire(request) => self.acquire(name, request, sent).await,
            Step::FastAcquire { request, with_others } => {
                self.fast_acquire(name, &first_attempt(*request, sent), *with_others, sent).await
            }
            Step::FastAdmit(request) => {
                self.fast_admit(name, &first_attempt(*request, sent), sent).await
            }
            Step::Insert(request) => self.insert(name, request, sent).await,
            Step::Write(write) => {
                self.write(name, write).await;
                Ok((Answer::Done, None))
            }
            Step::Heartbeat { .. }
            | Step::FindEntries { .. }
            | Step::Renew { .. }
            | Step::RenewHolders { .. }
            | Step::Resume { .. }
            | Step::Guard { .. }
            | Step::Delete(_)
            | Step::Tombstone(_)
            | Step::End { .. }
            | Step::EndLater { .. }
            | Step::ForeignAcquire { .. }
            | Step::ForeignRelease { .. }
            | Step::TtlDelete => {
                Ok((Answer::Matched(self.is_matched(name, step, sent).await?), None))
            }
        }
    }

    /// Runs a step whose answer is whether it matched.
    async fn is_matched(&self, name: &str, step: &Step, sent: i64) -> Result<bool, DecodeError> {
        let nobody = self.nobodys_value(name).await;
        let target = |target: Target| release_target(name, target, &nobody);
        let key_of =
            |key: Key| GrantKey::new(name, &held_text(key.value, &nobody), &grant_id(key.id));
        let renewed =
            |(key, lasts)| RenewalTarget { key: key_of(key).into(), lasts: duration(lasts) };
        let is_matched = match *step {
            Step::Heartbeat { value } => {
                let waiter_ttl = duration(LIFE);
                let places = vec![place(name, value)];
                self.run(&Heartbeat { entries: places, waiter_ttl }, sent).await?.matched > 0
            }
            Step::FindEntries { value } => {
                let places = vec![place(name, value)];
                let found = self.run(&FindEntries { entries: places.clone() }, sent).await?;
                assert!(found.iter().all(|place| *place == places[0]), "{found:?}");
                !found.is_empty()
            }
            Step::Renew { key, lasts } => {
                let grants = vec![renewed((key, lasts))];
                self.run(&RenewMany { grants }, sent).await?.matched > 0
            }
            Step::RenewHolders { ref keys } => {
                let grants = keys.iter().copied().map(renewed).collect();
                self.run(&RenewHolders { grants }, sent).await?.matched > 0
            }
            Step::Resume { key, fresh, terms } => {
                let fresh_id = grant_id(fresh);
                let ttl = terms.ttl.map(duration);
                let own = (duration(terms.default_ttl), duration(terms.max_clock_skew));
                let timing = Timing::new(own.0, own.1, None).expect("a valid timing").into();
                let resume = Resume { key: key_of(key), fresh_id, ttl, timing };
                assert_eq!(resume.terms(), terms);
                self.run(&resume, sent).await?.is_some()
            }
            Step::Guard { key, lasts, commits } => {
                self.guard((key_of(key), lasts), commits, sent).await?
            }
            Step::Delete(it) => {
                self.run(&Delete { targets: vec![target(it)] }, sent).await?.count > 0
            }
            Step::Tombstone(it) => {
                let command = Tombstone { targets: vec![target(it)], values: fresh_values() };
                self.run(&command, sent).await?.ended.count > 0
            }
            Step::End { target: it, scope } => {
                let command = End { targets: vec![target(it)], scope, values: fresh_values() };
                self.run(&command, sent).await?.count > 0
            }
            Step::EndLater { target: it, hold_at_least } => {
                let (hold_at_least, values) = (duration(hold_at_least), fresh_values());
                self.run(&EndLater { target: target(it), hold_at_least, values }, sent).await?
            }
            Step::ForeignAcquire { value } => self.foreign_acquire(name, value).await,
            Step::ForeignRelease { value } => {
                self.delete(doc! { "name": name, "value": held_text(value, &nobody) }).await
            }
            Step::TtlDelete => self.ttl_delete(name).await,
            Step::Acquire(_)
            | Step::FastAcquire { .. }
            | Step::FastAdmit(_)
            | Step::Insert(_)
            | Step::Write(_) => unreachable!("{step:?}"),
        };
        Ok(is_matched)
    }

    /// The value of the tombstone in the document, or of none.
    async fn nobodys_value(&self, name: &str) -> String {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        let found = collection.find_one(doc! { "name": name }).await.unwrap();
        let value = found.and_then(|found| found.get_str("value").ok().map(str::to_owned));
        value.filter(|value| is_tombstone(value)).unwrap_or_else(|| PREFIX.to_owned())
    }

    async fn guard(
        &self,
        (key, lasts): (GrantKey, i64),
        commits: bool,
        sent: i64,
    ) -> Result<bool, DecodeError> {
        let guard = Guard { key: key.into(), lasts: duration(lasts) };
        let mut session = self.database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sent = instant(sent);
        let command = self.changed::<Guard>(guard.build(COLLECTION, sent));
        let reply = self.database.run_command(command).session(&mut session).await.unwrap();
        let guarded = guard.decode(&reply, sent)?;
        match commits {
            true => session.commit_transaction().await.unwrap(),
            false => session.abort_transaction().await.unwrap(),
        }
        Ok(guarded.matched > 0)
    }

    /// Sends a command. The error is that of the decoder.
    ///
    /// # Panics
    ///
    /// When the server refuses the command.
    pub(super) async fn run<C: Command>(
        &self,
        command: &C,
        sent: i64,
    ) -> Result<C::Reply, DecodeError> {
        let sent = instant(sent);
        let document = self.changed::<C>(command.build(COLLECTION, sent));
        let reply = self.database.run_command(document.clone()).await;
        let reply = reply.unwrap_or_else(|error| panic!("{error:?}: {document}"));
        command.decode(&reply, sent)
    }

    /// The command as it is sent: where this control has a change for it, with that change.
    pub(super) fn changed<C>(&self, command: bson::Document) -> bson::Document {
        match self.change {
            Some(change) if type_name::<C>().ends_with(&format!("::{}", change.command)) => {
                (change.edit)(command)
            }
            Some(_) | None => command,
        }
    }
}

fn release_target(name: &str, target: Target, nobody: &str) -> ReleaseTarget {
    let Target { value, which, form } = target;
    let grant = match which {
        small::GrantMatch::Any => GrantMatch::Any,
        small::GrantMatch::Grant(id) => GrantMatch::Grant(grant_id(id)),
        small::GrantMatch::Call { call_id, except } => {
            GrantMatch::Call { call_id: call(call_id), except: except.map(grant_id) }
        }
    };
    ReleaseTarget { name: name.to_owned(), value: held_text(value, nobody), grant, form }
}

fn place(name: &str, value: Value) -> QueueEntry {
    QueueEntry { name: name.to_owned(), value: text(value) }
}
