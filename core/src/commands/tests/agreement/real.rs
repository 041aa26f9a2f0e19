//! Runs the same steps on a real server, with the library's own commands.

use std::any::type_name;

use crate::bson::{DateTime, Document, Timestamp, doc};
use crate::rules::time::Instant;
use crate::rules::timing::Timing;
use mongodb::Database;

use super::changes::Change;
use super::steps::{Answer, Ending, LIFE, Step, Target};
use super::texts::{Key, duration, instant};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::heartbeat::{FindEntries, Heartbeat};
use crate::commands::release::{Delete, End, EndLater, ReleaseTarget, Tombstone};
use crate::commands::renew::{GrantKey, Guard, RenewMany, RenewalTarget, Resume};
use crate::commands::renew_holders::RenewHolders;
use crate::commands::tests::{entries, fresh_values};
use crate::spec::Types;
use crate::texts::Texts;

pub(super) const COLLECTION: &str = "locks";

/// The answer to a step, and the token of a grant; or why a reply could not be decoded.
pub(super) type Replied = Result<(Answer, Option<Timestamp>), DecodeError>;

pub(super) struct Real {
    pub(super) database: Database,
    /// The time at the start of the test, which is the specification's time throughout.
    pub(super) began: i64,
    /// A deliberate change to a command, which the comparison has to find.
    change: Option<Change>,
}

impl Real {
    pub(super) fn new(database: &Database, change: Option<Change>) -> Real {
        Real { database: database.clone(), began: DateTime::now().timestamp_millis(), change }
    }

    /// Runs a step, and returns its answer and the token of a grant. The error is that of the decoder.
    ///
    /// `nobody`: the value of the tombstone in the document, or of none.
    pub(super) async fn take(&self, name: &str, step: &Step, sent: i64, nobody: &str) -> Replied {
        if let Step::Acquire(how, request) = step {
            return self.acquire(name, *how, &how.sends(request.clone(), sent)).await;
        }
        // The value of no holder is the tombstone's own.
        let held = |value: &str| match value == Texts::nobody() {
            true => nobody.to_owned(),
            false => value.to_owned(),
        };
        let places = |value: &str| entries(&[(name, value)]);
        let key_of = |key: &Key| GrantKey::new(name, &held(&key.value), &key.id);
        let renewed =
            |key, lasts| RenewalTarget { key: key_of(key).into(), lasts: duration(lasts) };
        let is_matched = match step {
            Step::Acquire(..) => unreachable!("{step:?}"),
            Step::Write(write) => {
                self.write(name, write).await;
                return Ok((Answer::Done, None));
            }
            Step::Heartbeat(value) => {
                let heartbeat = Heartbeat { entries: places(value), waiter_ttl: duration(LIFE) };
                self.run(&heartbeat, sent).await?.matched > 0
            }
            Step::FindEntries(value) => {
                let found = self.run(&FindEntries { entries: places(value) }, sent).await?;
                assert!(found.iter().all(|place| places(value).contains(place)), "{found:?}");
                !found.is_empty()
            }
            Step::Renew(key, lasts) => {
                let grants = vec![renewed(key, *lasts)];
                self.run(&RenewMany { grants }, sent).await?.matched > 0
            }
            Step::RenewHolders(keys) => {
                let grants = keys.iter().map(|(key, lasts)| renewed(key, *lasts)).collect();
                self.run(&RenewHolders { grants }, sent).await?.matched > 0
            }
            Step::Resume { key, fresh, terms } => {
                let ttl = terms.ttl.map(duration);
                let own = (duration(terms.default_ttl), duration(terms.max_clock_skew));
                let timing = Timing::new(own.0, own.1, None).expect("a valid timing").into();
                let resume = Resume { key: key_of(key), fresh_id: fresh.clone(), ttl, timing };
                assert_eq!(resume.terms(), *terms);
                self.run(&resume, sent).await?.is_some()
            }
            Step::Guard { key, lasts, commits } => {
                let guard = Guard { key: key_of(key).into(), lasts: duration(*lasts) };
                self.guard(&guard, *commits, instant(sent)).await?
            }
            Step::Release(Target { value, which, form }, ending) => {
                let (value, grant) = (held(value), which.clone());
                let target = ReleaseTarget { name: name.to_owned(), value, grant, form: *form };
                self.release(target, *ending, sent).await?
            }
            Step::ForeignAcquire => self.foreign_acquire(name).await,
            Step::ForeignRelease(value) => {
                self.delete(doc! { "name": name, "value": held(value) }).await
            }
            Step::TtlDelete => self.ttl_delete(name).await,
        };
        Ok((Answer::Matched(is_matched), None))
    }

    async fn guard(
        &self,
        guard: &Guard,
        commits: bool,
        sent: Instant,
    ) -> Result<bool, DecodeError> {
        let mut session = self.database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let command = self.changed::<Guard>(guard.build(COLLECTION, sent));
        let reply = self.database.run_command(command).session(&mut session).await.unwrap();
        let guarded = guard.decode(&reply, sent)?;
        match commits {
            true => session.commit_transaction().await.unwrap(),
            false => session.abort_transaction().await.unwrap(),
        }
        Ok(guarded.matched > 0)
    }

    async fn release(
        &self,
        target: ReleaseTarget,
        ending: Ending,
        sent: i64,
    ) -> Result<bool, DecodeError> {
        let (targets, values) = (vec![target.clone()], fresh_values());
        let count = match ending {
            Ending::Delete => self.run(&Delete { targets }, sent).await?.count,
            Ending::Tombstone => self.run(&Tombstone { targets, values }, sent).await?.ended.count,
            Ending::End(scope) => self.run(&End { targets, scope, values }, sent).await?.count,
            Ending::Later(held) => {
                let hold_at_least = duration(held);
                return self.run(&EndLater { target, hold_at_least, values }, sent).await;
            }
        };
        Ok(count > 0)
    }

    /// Sends a command, which the server must not refuse. The error is that of the decoder.
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
    pub(super) fn changed<C>(&self, command: Document) -> Document {
        let is_changed =
            |change: &&Change| type_name::<C>().ends_with(&format!("::{}", change.command));
        match self.change.as_ref().filter(is_changed) {
            Some(change) => change.made_to(command),
            None => command,
        }
    }
}
