//! Faults that the server makes itself, on command.

mod command;

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

pub use command::FailCommand;

use crate::apart;
use crate::server::PATIENCE;

/// How long a guard tries to reach a server that may be gone. A fail point dies with its server.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(2);

/// When a fail point acts.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Every time, until it is disabled.
    Always,
    /// The next n times.
    Times(u32),
}

/// A fail point of the server, by its name; for `failCommand`, see [`FailCommand`].
///
/// A fail point belongs to one process. In a [`crate::ReplicaSet`], name the node: `set.node(index).uri()`.
///
/// No fail point of the server loses a reply after the write was applied: `failCommand` closes the connection *before*
/// it runs the command. For that there is [`crate::Proxy`].
#[derive(Clone, Debug)]
#[must_use = "a fail point does nothing until `enable`"]
pub struct FailPoint {
    name: String,
    mode: Mode,
    data: Document,
}

impl FailPoint {
    /// A fail point with this name, which acts every time.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), mode: Mode::Always, data: Document::new() }
    }

    /// Switches it on at the server with this URI, until the guard is dropped.
    ///
    /// # Panics
    ///
    /// When the server refuses it, or is no test server.
    pub async fn enable(self, uri: impl Into<String>) -> FailPointGuard {
        let uri = uri.into();
        let mode = match self.mode {
            Mode::Always => Bson::from("alwaysOn"),
            Mode::Times(count) => Bson::from(doc! { "times": i64::from(count) }),
        };
        let command = doc! { "configureFailPoint": &self.name, "mode": mode, "data": self.data };
        // The guard is there before the command is sent: cancelled in between, it cleans up.
        let mut guard = FailPointGuard { uri, name: self.name, entered_before: 0, on: true };
        let reply = apart::admin(guard.uri.clone(), command, PATIENCE).await;
        let reply = reply.inspect_err(|_| guard.on = false);
        guard.entered_before = count(&reply.unwrap_or_else(|error| error.raise()));
        guard
    }
}

/// A fail point that is on, until this is disabled or dropped; after a panic as well.
#[derive(Debug)]
#[must_use = "dropping the guard disables the fail point"]
pub struct FailPointGuard {
    uri: String,
    name: String,
    entered_before: i64,
    on: bool,
}

impl FailPointGuard {
    /// Returns when the fail point was reached `times` times since it was enabled.
    ///
    /// # Panics
    ///
    /// When that does not happen in half a minute.
    pub async fn wait_times_entered(&self, times: u32) {
        let command = doc! {
            "waitForFailPoint": &self.name,
            "timesEntered": self.entered_before + i64::from(times),
            "maxTimeMS": 30_000,
        };
        let reply = apart::admin(self.uri.clone(), command, PATIENCE + FAREWELL_PATIENCE).await;
        reply.unwrap_or_else(|error| error.raise());
    }

    /// Switches the fail point off, and returns how often it was reached since it was enabled.
    ///
    /// mongod waits until it blocks no command any more: with [`FailCommand::block_for`], up to that time.
    ///
    /// # Panics
    ///
    /// When the server does not do it.
    pub async fn disable(mut self) -> u64 {
        let reply = apart::admin(self.uri.clone(), off(&self.name), PATIENCE).await;
        // Not before the reply: a caller that gives up waiting drops the guard, which tries again.
        self.on = false;
        let reply = reply.unwrap_or_else(|error| error.raise());
        u64::try_from(count(&reply) - self.entered_before).unwrap_or(0)
    }
}

impl Drop for FailPointGuard {
    fn drop(&mut self) {
        if !self.on {
            return;
        }
        let (uri, command) = (self.uri.clone(), off(&self.name));
        let outcome = apart::block_on(async move || {
            apart::admin_here(&uri, command, FAREWELL_PATIENCE).await
        });
        if let Err(error) = outcome {
            // Not a panic: the server may be gone on purpose, and the test may be panicking.
            eprintln!("mongo-lease-testbed: fail point {} is perhaps left on: {error}", self.name);
        }
    }
}

fn off(name: &str) -> Document {
    doc! { "configureFailPoint": name, "mode": "off" }
}

fn count(reply: &Document) -> i64 {
    let count = reply.get("count");
    let whole = count.and_then(Bson::as_i64);
    whole.or_else(|| count.and_then(Bson::as_i32).map(i64::from)).unwrap_or(0)
}
