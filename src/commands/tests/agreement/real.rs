//! Runs the same steps on a real server, with the library's own commands.

use mongodb::Database;
use mongodb::bson::{self, Bson, DateTime, doc};

use super::queue;
use super::requests::request_for;
use super::server::{self, Entry, Expiry, Grant, Key, Value};
use super::short::answer;
use super::steps::{Answer, HOUR, LIFE, Step};
use super::texts::held_text;
pub(super) use super::texts::{call, duration, grant_id, instant, read_id, read_value, text};
use crate::commands::Command;
use crate::commands::acquire::FullAcquire;
use crate::commands::guard::Guard;
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use crate::commands::release::{
    GrantMatch, HandOff, HandOffTo, Release, ReleaseLater, ReleaseTarget,
};
use crate::commands::renew::{GrantKey, RenewMany, Resume};
use crate::commands::tests::fresh_values;
use crate::commands::tombstone::Tombstone;
use crate::rules::token::Token;
use crate::rules::tombstone::{PREFIX, is_tombstone};

pub(super) const COLLECTION: &str = "locks";
pub(super) const OWNER: &str = "$owner";
/// Times that differ by less count as equal.
const SAME: i64 = HOUR / 6;

/// The real server.
pub(super) struct Real {
    pub(super) database: Database,
    /// The time at the start of the test, which is the model's time throughout.
    began: i64,
}

impl Real {
    pub(super) async fn new(database: &Database) -> Real {
        let unique = doc! { "key": { "name": 1 }, "name": "name_1", "unique": true };
        let create = doc! { "createIndexes": COLLECTION, "indexes": [unique] };
        database.run_command(create).await.unwrap();
        Real { database: database.clone(), began: DateTime::now().timestamp_millis() }
    }

    pub(super) fn now(&self) -> i64 {
        self.began
    }

    /// Runs a step, and returns its answer and the token of a grant.
    pub(super) async fn take(&self, name: &str, step: &Step, sent: i64) -> (Answer, Option<Token>) {
        if let Step::Acquire(request) = step {
            return self.acquire(name, request, sent).await;
        }
        if let &Step::FastAcquire { request, with_others } = step {
            return self.take_shortly(name, &request.first_attempt(sent), with_others, sent).await;
        }
        if let Step::Insert(request) = step {
            return self.insert(name, request, sent).await;
        }
        if self.meddle(name, step).await {
            return (Answer::Done, None);
        }
        (Answer::Matched(self.is_matched(name, step, sent).await), None)
    }

    /// Runs a step whose answer is whether it matched.
    async fn is_matched(&self, name: &str, step: &Step, sent: i64) -> bool {
        let nobody = self.nobodys_value(name).await;
        let target = |value, which| target(name, (value, &nobody), which);
        let key_of = |key| key_of(name, key, &nobody);
        match *step {
            Step::Heartbeat { value } => {
                let life = duration(LIFE);
                let places = vec![place(name, value)];
                self.run(&Heartbeat { entries: places, life }, sent).await.matched > 0
            }
            Step::FindLeases { value } => {
                let places = vec![place(name, value)];
                let found = self.run(&FindEntries { entries: places.clone() }, sent).await;
                assert!(found.iter().all(|place| *place == places[0]), "{found:?}");
                !found.is_empty()
            }
            Step::HandOff { value, which, to } => {
                let to = match to {
                    server::HandOffTo::LiveWaiter => HandOffTo::LiveWaiter,
                    server::HandOffTo::LiveWaiterOrNobody => HandOffTo::LiveWaiterOrNobody,
                    server::HandOffTo::AfterLeavingQueue => HandOffTo::AfterLeavingQueue,
                };
                let targets = vec![target(value, which)];
                let values = fresh_values();
                self.run(&HandOff { targets, to, values }, sent).await.count > 0
            }
            Step::Renew { key } => {
                let grants = vec![key_of(key).into()];
                self.run(&RenewMany { grants }, sent).await.matched > 0
            }
            Step::Resume { key, fresh } => {
                let fresh_id = grant_id(fresh);
                let resume = Resume { key: key_of(key), fresh_id, ttl: None };
                self.run(&resume, sent).await.is_some()
            }
            Step::Guard { key, commits } => self.guard(key_of(key), commits, sent).await,
            Step::Release { value, which } => {
                let targets = vec![target(value, which)];
                self.run(&Release { targets }, sent).await.count > 0
            }
            Step::Tombstone { value, which } => {
                let targets = vec![target(value, which)];
                let values = fresh_values();
                let command = Tombstone { targets, values };
                self.run(&command, sent).await.ended.count > 0
            }
            Step::ReleaseLater { value, which, hold_at_least } => {
                let target = target(value, which);
                let hold_at_least = duration(hold_at_least);
                let values = fresh_values();
                let later = ReleaseLater { target, hold_at_least, values };
                self.run(&later, sent).await
            }
            Step::ForeignTake { value } => self.foreign_take(name, value).await,
            Step::ForeignRelease { value } => {
                let collection = self.database.collection::<bson::Document>(COLLECTION);
                let of_it = doc! { "name": name, "value": held_text(value, &nobody) };
                collection.delete_one(of_it).await.unwrap().deleted_count > 0
            }
            Step::Acquire(_)
            | Step::FastAcquire { .. }
            | Step::Insert(_)
            | Step::SetExpiry { .. }
            | Step::SetValue { .. }
            | Step::SetQueue { .. }
            | Step::DamageQueue => unreachable!("{step:?}"),
        }
    }

    /// The value of the tombstone in the document, or of none.
    async fn nobodys_value(&self, name: &str) -> String {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        let found = collection.find_one(doc! { "name": name }).await.unwrap();
        let value = found.and_then(|found| found.get_str("value").ok().map(str::to_owned));
        value.filter(|value| is_tombstone(value)).unwrap_or_else(|| PREFIX.to_owned())
    }

    /// Runs a step that has no answer. Returns false for other steps.
    async fn meddle(&self, name: &str, step: &Step) -> bool {
        let change = match step {
            Step::SetExpiry { to: Expiry::Absent } => doc! { "$unset": { "expiresAt": 1 } },
            Step::SetExpiry { to: Expiry::Damaged } => doc! { "$set": { "expiresAt": "2999" } },
            Step::SetExpiry { to: Expiry::At(hours) } => {
                let at = DateTime::from_millis(self.began + hours * HOUR);
                doc! { "$set": { "expiresAt": at } }
            }
            Step::SetValue { value } => doc! { "$set": { "value": text(*value) } },
            Step::SetQueue { to } => {
                doc! { "$set": { "queue": queue::written(to, self.began) } }
            }
            Step::DamageQueue => doc! { "$set": { "queue": "queue" } },
            Step::Acquire(_)
            | Step::FastAcquire { .. }
            | Step::Insert(_)
            | Step::Heartbeat { .. }
            | Step::FindLeases { .. }
            | Step::HandOff { .. }
            | Step::Renew { .. }
            | Step::Resume { .. }
            | Step::Guard { .. }
            | Step::Release { .. }
            | Step::Tombstone { .. }
            | Step::ReleaseLater { .. }
            | Step::ForeignTake { .. }
            | Step::ForeignRelease { .. } => return false,
        };
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        collection.update_one(doc! { "name": name }, change).await.unwrap();
        true
    }

    async fn acquire(
        &self,
        name: &str,
        request: &server::AcquireRequest,
        sent: i64,
    ) -> (Answer, Option<Token>) {
        let command = FullAcquire {
            request: request_for(name, request),
            attempt: u32::from(request.id.attempt),
            predecessor: request.predecessor.map(text),
        };
        answer(self.run(&command, sent).await)
    }

    async fn guard(&self, key: GrantKey, commits: bool, sent: i64) -> bool {
        let guard = Guard { key: key.into() };
        let mut session = self.database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sent = instant(sent);
        let command = guard.build("locks", sent);
        let reply = self.database.run_command(command).session(&mut session).await.unwrap();
        let guarded = guard.decode(&reply, sent).unwrap();
        match commits {
            true => session.commit_transaction().await.unwrap(),
            false => session.abort_transaction().await.unwrap(),
        }
        guarded.matched > 0
    }

    /// Acquires as other programs do, with the usual recipe.
    async fn foreign_take(&self, name: &str, value: Value) -> bool {
        let now = DateTime::now();
        let until = DateTime::from_millis(now.timestamp_millis() + 4 * HOUR);
        let command = doc! {
            "findAndModify": COLLECTION,
            "query": {
                "name": name,
                "$or": [{ "expiresAt": { "$lte": now } }, { "expiresAt": null }],
            },
            "update": { "$set": { "value": text(value), "expiresAt": until } },
            "upsert": true,
            "new": true,
        };
        // If it is held, the upsert would create a second document, and the index refuses it.
        self.database.run_command(command).await.is_ok()
    }

    pub(super) async fn run<C: Command>(&self, command: &C, sent: i64) -> C::Reply {
        let sent = instant(sent);
        let document = command.build("locks", sent);
        let reply = self.database.run_command(document.clone()).await;
        let reply = reply.unwrap_or_else(|error| panic!("{error:?}: {document}"));
        command.decode(&reply, sent).unwrap_or_else(|error| panic!("{error:?}: {reply}"))
    }

    /// The current document, in the model's terms.
    pub(super) async fn document(&self, name: &str) -> Option<server::Document> {
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
        Some(server::Document { value, expiry, grant, queue, promoted })
    }

    /// Whether both are equal, except for the time that passes in a test.
    pub(super) fn is_same(
        &self,
        found: &Option<server::Document>,
        expected: &Option<server::Document>,
    ) -> bool {
        let rounded = |document: &server::Document| server::Document {
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
    fn rounded(&self, at: i64) -> i64 {
        let since = at - self.began;
        let hours = (since + HOUR / 2).div_euclid(HOUR);
        if (since - hours * HOUR).abs() < SAME { hours * HOUR } else { since }
    }
}

fn grant(found: &bson::Document) -> Grant {
    assert_eq!(found.get_str("owner").ok(), Some(OWNER));
    assert_eq!(found.get_document("meta").ok(), Some(&queue::metadata()));
    let number = |field: &str| match found.get(field) {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(_) | None => i64::MIN,
    };
    Grant {
        value: read_value(found.get_str("value").unwrap()),
        id: read_id(found.get_str("id").unwrap()),
        sent: number("sent"),
        acquired_at: found.get_datetime("acquiredAt").unwrap().timestamp_millis(),
        ttl: number("ttlMs"),
        max_clock_skew: number("allowanceMs"),
        writes: number("n"),
    }
}

fn target(name: &str, (value, nobody): (Value, &str), which: server::GrantMatch) -> ReleaseTarget {
    let grant = match which {
        server::GrantMatch::Any => GrantMatch::Any,
        server::GrantMatch::Grant(id) => GrantMatch::Grant(grant_id(id)),
        server::GrantMatch::Call(number, except) => {
            GrantMatch::Call { call_id: call(number), except: except.map(grant_id) }
        }
    };
    ReleaseTarget { name: name.to_owned(), value: held_text(value, nobody), grant }
}

fn key_of(name: &str, key: Key, nobody: &str) -> GrantKey {
    GrantKey::new(name, &held_text(key.value, nobody), &grant_id(key.id))
}

fn place(name: &str, value: Value) -> QueueEntry {
    QueueEntry { name: name.to_owned(), value: text(value) }
}
