//! The same steps on a real server, by the library's own commands.

use std::sync::Arc;
use std::time::Duration;

use mongodb::Database;
use mongodb::bson::{self, Bson, DateTime, doc};

use super::server::{self, Expiry, Grant, GrantId, Key, NOBODY, Value};
use super::steps::{Answer, HOUR, Step};
use crate::commands::acquire::{Acquire, Ask, Reply};
use crate::commands::guard::Guard;
use crate::commands::release::{Release, ReleaseLater, Target, Which};
use crate::commands::renew::{GrantKey, RenewMany, Resume};
use crate::rules::time::Instant;
use crate::rules::timing::Timing;
use crate::rules::token::Token;
use crate::runner::Command;

const COLLECTION: &str = "locks";
/// Times that differ by less are the same.
const SAME: i64 = HOUR / 6;

/// The real server.
pub(super) struct Real {
    database: Database,
    /// The time when all of this began, which is the model's time.
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

    /// Takes a step, and says what was answered, with the token of a grant.
    pub(super) async fn take(&self, name: &str, step: Step, sent: i64) -> (Answer, Option<Token>) {
        let answer = match step {
            Step::Acquire { value, id, ttl, allowance } => {
                return self.acquire(name, value, id, ttl, allowance, sent).await;
            }
            Step::Renew { key } => {
                let grants = vec![key_of(name, key).into()];
                let command = RenewMany { collection: COLLECTION.to_owned(), grants };
                self.run(&command, sent).await.matched > 0
            }
            Step::Resume { key } => {
                let collection = COLLECTION.to_owned();
                self.run(&Resume { collection, key: key_of(name, key) }, sent).await.is_some()
            }
            Step::Guard { key, commits } => self.guard(name, key, commits, sent).await,
            Step::Release { value, which } => {
                let targets = vec![target(name, value, which)];
                let command = Release { collection: COLLECTION.to_owned(), targets };
                self.run(&command, sent).await > 0
            }
            Step::ReleaseLater { value, which, hold_at_least } => {
                let command = ReleaseLater {
                    collection: COLLECTION.to_owned(),
                    target: target(name, value, which),
                    hold_at_least: duration(hold_at_least),
                };
                self.run(&command, sent).await
            }
            Step::ForeignTake { value } => self.foreign_take(name, value).await,
            Step::SetExpiry { to } => {
                self.set_expiry(name, to).await;
                return (Answer::Done, None);
            }
            Step::SetValue { value } => {
                self.set(name, doc! { "$set": { "value": text(value) } }).await;
                return (Answer::Done, None);
            }
        };
        (Answer::Matched(answer), None)
    }

    async fn acquire(
        &self,
        name: &str,
        value: Value,
        id: GrantId,
        ttl: i64,
        allowance: i64,
        sent: i64,
    ) -> (Answer, Option<Token>) {
        let ask = Ask {
            collection: COLLECTION.to_owned(),
            name: name.to_owned(),
            value: text(value),
            call_id: call(id.call),
            owner: "$owner".to_owned(),
            metadata: doc! { "$key": "$value" },
            timing: Timing::new(duration(ttl), duration(allowance), None).unwrap(),
            has_oplog: true,
            joins: None,
        };
        let command =
            Acquire { ask: Arc::new(ask), attempt: u32::from(id.attempt), predecessor: None };
        match self.run(&command, sent).await {
            Reply::Granted(granted) => (Answer::Granted(read_id(&granted.grant_id)), granted.token),
            Reply::Refused(_) => (Answer::Refused, None),
        }
    }

    async fn guard(&self, name: &str, key: Key, commits: bool, sent: i64) -> bool {
        let guard = Guard { collection: COLLECTION.to_owned(), key: key_of(name, key).into() };
        let mut session = self.database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sent = instant(sent);
        let command = guard.build(sent);
        let reply = self.database.run_command(command).session(&mut session).await.unwrap();
        let guarded = guard.decode(&reply, sent).unwrap();
        match commits {
            true => session.commit_transaction().await.unwrap(),
            false => session.abort_transaction().await.unwrap(),
        }
        guarded.matched > 0
    }

    /// What other programs do: the usual recipe.
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
        // Somebody has it: the upsert would make a second document, and the index refuses it.
        self.database.run_command(command).await.is_ok()
    }

    async fn set_expiry(&self, name: &str, to: Expiry) {
        let update = match to {
            Expiry::Absent => doc! { "$unset": { "expiresAt": 1 } },
            Expiry::Damaged => doc! { "$set": { "expiresAt": "2999-01-01" } },
            Expiry::At(hours) => {
                let at = DateTime::from_millis(self.began + hours * HOUR);
                doc! { "$set": { "expiresAt": at } }
            }
        };
        self.set(name, update).await;
    }

    async fn set(&self, name: &str, update: bson::Document) {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        collection.update_one(doc! { "name": name }, update).await.unwrap();
    }

    async fn run<C: Command>(&self, command: &C, sent: i64) -> C::Reply {
        let sent = instant(sent);
        let reply = self.database.run_command(command.build(sent)).await.unwrap();
        command.decode(&reply, sent).unwrap()
    }

    /// The document as it stands, in the model's terms.
    pub(super) async fn document(&self, name: &str) -> Option<server::Document> {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        let found = collection.find_one(doc! { "name": name }).await.unwrap()?;
        let expiry = match found.get("expiresAt") {
            None | Some(Bson::Null) => Expiry::Absent,
            Some(Bson::DateTime(at)) => Expiry::At(at.timestamp_millis()),
            Some(_) => Expiry::Damaged,
        };
        let value = found.get_str("value").ok().map(read_value);
        Some(server::Document { value, expiry, grant: found.get_document("grant").ok().map(grant) })
    }

    /// Whether both are the same, but for the time that passes in a test.
    pub(super) fn is_same(
        &self,
        found: Option<server::Document>,
        expected: Option<server::Document>,
    ) -> bool {
        let rounded = |document: server::Document| server::Document {
            expiry: match document.expiry {
                Expiry::At(at) => Expiry::At(self.rounded(at)),
                Expiry::Absent | Expiry::Damaged => document.expiry,
            },
            grant: document
                .grant
                .map(|grant| Grant { acquired_at: self.rounded(grant.acquired_at), ..grant }),
            ..document
        };
        found.map(rounded) == expected.map(rounded)
    }

    /// To what it is the same as: whole hours from when all of this began.
    fn rounded(&self, at: i64) -> i64 {
        let since = at - self.began;
        let hours = (since + HOUR / 2).div_euclid(HOUR);
        if (since - hours * HOUR).abs() < SAME { hours * HOUR } else { since }
    }
}

fn grant(found: &bson::Document) -> Grant {
    let number = |field: &str| match found.get(field) {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Double(_)) | Some(_) | None => i64::MIN,
    };
    Grant {
        value: read_value(found.get_str("value").unwrap()),
        id: read_id(found.get_str("id").unwrap()),
        sent: number("sent"),
        acquired_at: found.get_datetime("acquiredAt").unwrap().timestamp_millis(),
        ttl: number("ttlMs"),
        allowance: number("allowanceMs"),
        writes: number("n"),
    }
}

fn target(name: &str, value: Value, which: server::Which) -> Target {
    let grant = match which {
        server::Which::Any => Which::Any,
        server::Which::Grant(id) => Which::Grant(grant_id(id)),
        server::Which::Call(number, except) => {
            Which::Call { call_id: call(number), except: except.map(grant_id) }
        }
    };
    Target { name: name.to_owned(), value: text(value), grant }
}

fn key_of(name: &str, key: Key) -> GrantKey {
    GrantKey { name: name.to_owned(), value: text(key.value), grant_id: grant_id(key.id) }
}

/// A value as a text that would be an expression if it stood bare in a pipeline.
fn text(value: Value) -> String {
    if value == NOBODY { String::new() } else { format!("$value{}", value.0) }
}

fn read_value(text: &str) -> Value {
    if text.is_empty() {
        return NOBODY;
    }
    Value(text.strip_prefix("$value").unwrap().parse().unwrap())
}

fn call(number: u8) -> String {
    format!("call{number}")
}

fn grant_id(id: GrantId) -> String {
    format!("{}.{}", call(id.call), id.attempt)
}

fn read_id(text: &str) -> GrantId {
    let (call, attempt) = text.strip_prefix("call").unwrap().split_once('.').unwrap();
    GrantId { call: call.parse().unwrap(), attempt: attempt.parse().unwrap() }
}

fn instant(sent: i64) -> Instant {
    Instant::from_nanos(u64::try_from(sent).unwrap())
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap())
}
