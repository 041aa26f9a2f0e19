//! Runs the same steps on a real server, with the library's own commands.

use std::any::type_name;

use crate::bson::{self, Bson, DateTime, Timestamp, doc};
use mongodb::Database;

use super::changes::Change;
use super::permits::documents;
use super::queue::{self, NO_TEXT};
use super::requests::request_for;
use super::short::answer;
use super::small::{self, Entry, Grant, Key, Small, Value};
use super::steps::{Answer, HOUR, LIFE, Step, first_attempt};
pub(super) use super::texts::{call, duration, grant_id, instant, read_id, read_value, text};
use crate::rules::timing::Timing;
use crate::rules::tombstone::{PREFIX, is_tombstone};
use crate::spec::permits::{Admission, HolderElement};
use crate::spec::{self, Expiry};

use super::texts::{held_text, read_details};
use crate::commands::acquire::FullAcquire;
use crate::commands::guard::Guard;
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use crate::commands::release::{
    GrantMatch, HandOff, HandOffTo, Release, ReleaseLater, ReleaseTarget,
};
use crate::commands::renew::{GrantKey, RenewMany, RenewalTarget, Resume};
use crate::commands::tests::fresh_values;
use crate::commands::tombstone::Tombstone;
use crate::commands::{Command, DecodeError};

pub(super) const COLLECTION: &str = "locks";
/// Times that differ by less count as equal.
const SAME: i64 = HOUR / 6;

/// The answer to a step, and the token of a grant; or why a reply could not be decoded.
pub(super) type Replied = Decoded<(Answer, Option<Timestamp>)>;
type Decoded<T> = Result<T, DecodeError>;

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
        if let Step::Acquire(request) = step {
            return self.acquire(name, request, sent).await;
        }
        if let &Step::FastAcquire { request, with_others } = step {
            return self.take_shortly(name, &first_attempt(request, sent), with_others, sent).await;
        }
        if let Step::Insert(request) = step {
            return self.insert(name, request, sent).await;
        }
        if let Step::Write(write) = step {
            self.write(name, write).await;
            return Ok((Answer::Done, None));
        }
        if let &Step::HandOff { value, which, to } = step {
            return self.hand_off(name, (value, which, to), sent).await;
        }
        let is_matched = self.is_matched(name, step, sent).await?;
        Ok((Answer::Matched(is_matched), None))
    }

    /// Runs a step whose answer is whether it matched.
    async fn is_matched(&self, name: &str, step: &Step, sent: i64) -> Decoded<bool> {
        let nobody = self.nobodys_value(name).await;
        let target = |value, which| target(name, (value, &nobody), which);
        let key_of = |key| key_of(name, key, &nobody);
        let is_matched = match *step {
            Step::Heartbeat { value } => {
                let life = duration(LIFE);
                let places = vec![place(name, value)];
                self.run(&Heartbeat { entries: places, life }, sent).await?.matched > 0
            }
            Step::FindEntries { value } => {
                let places = vec![place(name, value)];
                let found = self.run(&FindEntries { entries: places.clone() }, sent).await?;
                assert!(found.iter().all(|place| *place == places[0]), "{found:?}");
                !found.is_empty()
            }
            Step::Renew { key, lasts } => {
                let lasts = duration(lasts);
                let grants = vec![RenewalTarget { key: key_of(key).into(), lasts }];
                self.run(&RenewMany { grants }, sent).await?.matched > 0
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
            Step::Release { value, which } => {
                let targets = vec![target(value, which)];
                self.run(&Release { targets }, sent).await?.count > 0
            }
            Step::Tombstone { value, which } => {
                let command =
                    Tombstone { targets: vec![target(value, which)], values: fresh_values() };
                self.run(&command, sent).await?.ended.count > 0
            }
            Step::ReleaseLater { value, which, hold_at_least } => {
                let (target, values) = (target(value, which), fresh_values());
                let later = ReleaseLater { target, hold_at_least: duration(hold_at_least), values };
                self.run(&later, sent).await?
            }
            Step::ForeignAcquire { value } => self.foreign_acquire(name, value).await,
            Step::ForeignRelease { value } => {
                self.delete(doc! { "name": name, "value": held_text(value, &nobody) }).await
            }
            Step::TtlDelete => self.ttl_delete(name).await,
            Step::Acquire(_)
            | Step::FastAcquire { .. }
            | Step::Insert(_)
            | Step::HandOff { .. }
            | Step::Write(_) => unreachable!("{step:?}"),
        };
        Ok(is_matched)
    }

    async fn hand_off(
        &self,
        name: &str,
        (value, which, to): (Value, small::GrantMatch, spec::HandOffTo),
        sent: i64,
    ) -> Replied {
        let to = match to {
            spec::HandOffTo::LiveWaiter => HandOffTo::LiveWaiter,
            spec::HandOffTo::LiveWaiterOrNobody => HandOffTo::LiveWaiterOrNobody,
            spec::HandOffTo::AfterLeavingQueue => HandOffTo::AfterLeavingQueue,
        };
        let nobody = self.nobodys_value(name).await;
        let targets = vec![target(name, (value, &nobody), which)];
        let handed_off = self.run(&HandOff { targets, to, values: fresh_values() }, sent).await?;
        let answer = match (handed_off.ended.count, handed_off.left) {
            (0, 0) => Answer::Matched(false),
            (1, 0) => Answer::Matched(true),
            (0, 1) => Answer::LeftToAdmit,
            counts => panic!("{counts:?} of one target"),
        };
        Ok((answer, None))
    }

    /// The value of the tombstone in the document, or of none.
    pub(super) async fn nobodys_value(&self, name: &str) -> String {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        let found = collection.find_one(doc! { "name": name }).await.unwrap();
        let value = found.and_then(|found| found.get_str("value").ok().map(str::to_owned));
        value.filter(|value| is_tombstone(value)).unwrap_or_else(|| PREFIX.to_owned())
    }

    async fn acquire(&self, name: &str, request: &small::AcquireRequest, sent: i64) -> Replied {
        let command = FullAcquire {
            request: request_for(name, request),
            attempt: u32::from(request.id.attempt),
            predecessor: request.predecessor.map(text),
        };
        Ok(answer(self.run(&command, sent).await?))
    }

    async fn guard(
        &self,
        (key, lasts): (GrantKey, i64),
        commits: bool,
        sent: i64,
    ) -> Decoded<bool> {
        let guard = Guard { key: key.into(), lasts: duration(lasts) };
        let mut session = self.database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sent = instant(sent);
        let command = self.changed::<Guard>(guard.build("locks", sent));
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
    pub(super) async fn run<C: Command>(&self, command: &C, sent: i64) -> Decoded<C::Reply> {
        let sent = instant(sent);
        let document = self.changed::<C>(command.build("locks", sent));
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

    /// The current document, in the specification's terms.
    pub(super) async fn document(&self, name: &str) -> Option<small::Document> {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        let found = collection.find_one(doc! { "name": name }).await.unwrap()?;
        let expiry = match found.get("expiresAt") {
            None | Some(Bson::Null) => Expiry::Absent,
            Some(Bson::DateTime(at)) => Expiry::At(at.timestamp_millis()),
            Some(_) => Expiry::Damaged,
        };
        let value = found.get_str("value").ok().map(read_value);
        let grant = found.get_document("grant").ok().map(grant);
        let queue = queue::read(found.get("queue"));
        let promoted = found.get_str("promoted").ok().map(queue::read_promoted);
        let holders = documents::read(found.get("holders"));
        let admitted = found.get_str("admitted").map(documents::read_admitted).unwrap_or_default();
        Some(small::Document { value, expiry, grant, queue, promoted, holders, admitted })
    }

    /// Whether both are equal, except for the time that passes in a test.
    pub(super) fn is_same(
        &self,
        found: &Option<small::Document>,
        expected: &Option<small::Document>,
    ) -> bool {
        let holders = |document: &small::Document| {
            let mut holders = document.holders.clone();
            holders.elements_mut().iter_mut().for_each(|element| match element {
                HolderElement::Holder(holder) => {
                    holder.acquired_at = self.rounded(holder.acquired_at);
                    holder.expires_at = self.rounded(holder.expires_at);
                }
                HolderElement::Damaged(damaged) => {
                    damaged.expires_at = damaged.expires_at.map(|at| self.rounded(at));
                }
            });
            holders.without_empty_list()
        };
        let admitted = |document: &small::Document| {
            let rounded =
                |it: &Admission<Small>| Admission { until: self.rounded(it.until), ..*it };
            document.admitted.iter().map(rounded).collect()
        };
        let rounded = |document: &small::Document| small::Document {
            holders: holders(document),
            admitted: admitted(document),
            expiry: match document.expiry {
                Expiry::At(at) => Expiry::At(self.rounded(at)),
                Expiry::Absent | Expiry::Damaged => document.expiry,
            },
            grant: document
                .grant
                .map(|grant| Grant { acquired_at: self.rounded(grant.acquired_at), ..grant }),
            queue: queue::map_entries(&document.queue, |entry| Entry {
                heartbeat_at: self.rounded(entry.heartbeat_at),
                expires_at: self.rounded(entry.expires_at),
                ..entry
            })
            // A missing list and an empty one are equivalent.
            .without_empty_list(),
            ..document.clone()
        };
        found.as_ref().map(rounded) == expected.as_ref().map(rounded)
    }

    /// The time as it is compared: whole hours since the start, if it is close to that.
    pub(super) fn rounded(&self, at: i64) -> i64 {
        let since = at - self.began;
        let hours = (since + HOUR / 2).div_euclid(HOUR);
        if (since - hours * HOUR).abs() < SAME { hours * HOUR } else { since }
    }
}

/// The grant. A field that is missing or of a foreign type becomes one that no step writes.
fn grant(found: &bson::Document) -> Grant {
    const NO_ID: small::GrantId = small::GrantId { call: u8::MAX, attempt: u8::MAX };
    let number = |field: &str| match found.get(field) {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(_) | None => i64::MIN,
    };
    Grant {
        value: found.get_str("value").map_or(NO_TEXT, read_value),
        id: found.get_str("id").map_or(NO_ID, read_id),
        sent: number("sent"),
        acquired_at: found.get_datetime("acquiredAt").map_or(0, |at| at.timestamp_millis()),
        ttl: number("ttlMs"),
        max_clock_skew: number("allowanceMs"),
        writes: number("n"),
        details: read_details(found),
    }
}

pub(super) fn target(
    name: &str,
    (value, nobody): (Value, &str),
    which: small::GrantMatch,
) -> ReleaseTarget {
    let grant = match which {
        small::GrantMatch::Any => GrantMatch::Any,
        small::GrantMatch::Grant(id) => GrantMatch::Grant(grant_id(id)),
        small::GrantMatch::Call(number, except) => {
            GrantMatch::Call { call_id: call(number), except: except.map(grant_id) }
        }
    };
    ReleaseTarget { name: name.to_owned(), value: held_text(value, nobody), grant }
}

pub(super) fn key_of(name: &str, key: Key, nobody: &str) -> GrantKey {
    GrantKey::new(name, &held_text(key.value, nobody), &grant_id(key.id))
}

fn place(name: &str, value: Value) -> QueueEntry {
    QueueEntry { name: name.to_owned(), value: text(value) }
}
