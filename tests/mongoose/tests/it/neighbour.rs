//! The other program, in a process of its own.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongo_lease_testbed::{LineInput, LineOutput, LineProcess, Server, TestDatabase, command};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::clock::Micros;
use crate::common::LONG_TTL;
use crate::installed;
use crate::patience::PATIENCE;

/// How often it retries while it waits.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The options of the other program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Character {
    /// How well it follows the recipe: a key of `flavours` in `broken.mjs`.
    pub(crate) flavour: &'static str,
    /// A key of `schemas` in `schemas.mjs`.
    pub(crate) schema: &'static str,
    /// Whether its model makes its indexes.
    pub(crate) makes_indexes: bool,
    /// How far its clock is ahead of all others.
    pub(crate) clock_ahead_ms: i64,
}

impl Default for Character {
    fn default() -> Character {
        Character {
            flavour: "to the letter",
            schema: "the recipe",
            makes_indexes: true,
            clock_ahead_ms: 0,
        }
    }
}

/// The options of its acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeighbourOptions {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
}

/// Held for longer than a test, without a wait.
pub(crate) const ONCE: NeighbourOptions = NeighbourOptions { ttl: LONG_TTL, wait: Duration::ZERO };
/// The same, with a wait.
pub(crate) const WAITING: NeighbourOptions = NeighbourOptions { ttl: LONG_TTL, wait: PATIENCE };

/// The result of an acquire.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    /// When the call began.
    pub(crate) wanted: Micros,
    pub(crate) granted: Option<Held>,
}

/// A lock that it holds or held.
#[derive(Debug, Deserialize)]
pub(crate) struct Held {
    pub(crate) value: String,
    /// When the answer came.
    pub(crate) from: Micros,
    /// When it released the lock or, if it did not, when its own lease ends.
    pub(crate) until: Micros,
}

type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// The process. It is killed when this is dropped, and ends when our process does.
pub(crate) struct Neighbour {
    process: LineProcess,
    orders: tokio::sync::Mutex<LineInput>,
    answers: Answers,
    next: AtomicU64,
}

impl Neighbour {
    /// Starts it; it is connected, and its model has made its indexes.
    pub(crate) async fn start_as(database: &TestDatabase, character: Character) -> Neighbour {
        Neighbour::start_at(Server::shared().uri(), database.name(), character).await
    }

    pub(crate) async fn start_at(uri: &str, database: &str, character: Character) -> Neighbour {
        let folder = tokio::task::spawn_blocking(installed::folder).await.unwrap();
        let mut program = command("node");
        program
            .args(["--import", "./clock.mjs", "neighbour.mjs"])
            .env("NEIGHBOUR_CLOCK_AHEAD_MS", character.clock_ahead_ms.to_string())
            .current_dir(folder);
        let mut process = LineProcess::start(program)
            .unwrap_or_else(|error| panic!("{}", installed::complaint(&error)))
            .with_patience(PATIENCE);
        let orders = tokio::sync::Mutex::new(process.take_input());
        let answers = Answers::default();
        tokio::spawn(listen(process.take_output(), answers.clone()));
        let neighbour = Neighbour { process, orders, answers, next: AtomicU64::new(0) };
        let open = json!({
            "uri": uri,
            "database": database,
            "flavour": character.flavour,
            "schema": character.schema,
            "autoIndex": character.makes_indexes,
        });
        let _: Value = neighbour.order("open", open).await;
        neighbour
    }

    /// Acquires the lock and keeps it.
    pub(crate) async fn acquire(&self, name: &str, terms: NeighbourOptions) -> Asked {
        self.order("acquire", order(name, terms)).await
    }

    /// The same, for the value alone: `None` when somebody else has the lock.
    pub(crate) async fn lock(&self, name: &str, terms: NeighbourOptions) -> Option<String> {
        self.acquire(name, terms).await.granted.map(|held| held.value)
    }

    /// Acquires the lock, works under it and releases it.
    pub(crate) async fn hold(
        &self,
        name: &str,
        terms: NeighbourOptions,
        late_release: bool,
    ) -> Asked {
        let mut order = order(name, terms);
        order["lateRelease"] = late_release.into();
        self.order("hold", order).await
    }

    /// Whether there was something to release.
    pub(crate) async fn release(&self, name: &str, value: &str) -> bool {
        let answer: Value = self.order("release", json!({ "name": name, "value": value })).await;
        answer["released"].as_bool().unwrap()
    }

    /// The fields that Mongoose sees in the document of this name.
    pub(crate) async fn fields(&self, name: &str) -> Vec<String> {
        let answer: Value = self.order("look", json!({ "name": name })).await;
        serde_json::from_value(answer["fields"].clone()).unwrap()
    }

    /// The changes to the indexes that Mongoose would make (`diffIndexes`), and those that it makes (`syncIndexes`).
    pub(crate) async fn indexes(&self) -> Value {
        self.order("indexes", json!({})).await
    }

    /// SIGKILL. Returns when the process has ended by it.
    pub(crate) async fn kill(mut self) {
        let status = self.process.kill().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it has ended by itself");
    }

    async fn order<T: DeserializeOwned>(&self, what: &str, mut order: Value) -> T {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        order["id"] = id.into();
        order["order"] = what.into();
        let (sender, answer) = oneshot::channel();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let sent = self.orders.lock().await.send(&order.to_string()).await;
        sent.unwrap_or_else(|error| panic!("{error}"));
        // Twice: a waiting order may use up the patience by itself.
        let answer = tokio::time::timeout(2 * PATIENCE, answer).await;
        let mut answer = answer.expect("an answer in time").expect("it has not ended");
        assert!(answer.get("error").is_none(), "{what}: {}", answer["error"]);
        serde_json::from_value(answer["answer"].take()).unwrap()
    }
}

fn order(name: &str, terms: NeighbourOptions) -> Value {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
    json!({
        "name": name,
        "ttlMs": millis(terms.ttl),
        "waitMs": millis(terms.wait),
        "pollMs": millis(POLL),
    })
}

/// Passes each answer to its caller. When the process has ended, no caller waits any longer.
async fn listen(mut output: LineOutput, answers: Answers) {
    while let Ok(Some(line)) = output.next_line().await {
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let id = answer["id"].as_u64().unwrap();
        let asked = answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let _gone = asked.unwrap().send(answer);
    }
    answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
