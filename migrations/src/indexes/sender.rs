//! Sends commands: each in its own task, with a time limit. Retries reads after transient failures.
//!
//! A driver future is never dropped: that would close its connection, and the server would go on anyway.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use mongodb::Database;
use mongodb::bson::Document;
use mongodb::options::{ReadPreference, RunCommandOptions, SelectionCriteria};
use tokio::time::{Instant, sleep, timeout_at};

use super::error::Failure;

/// The longest delay between two tries.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Endless growing delays between two tries. They have jitter, so that processes that began together spread out.
pub(super) fn delays() -> impl Iterator<Item = Duration> + Send + Unpin {
    ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(DELAY_MAX)
        .without_max_times()
        .build()
}

/// Repeats a command until `read` accepts its reply or the time is over. Only for commands that change nothing.
pub(super) async fn ask<T>(
    database: &Database,
    command: Document,
    within: Duration,
    read: impl Fn(&Document) -> Option<T>,
) -> Result<T, Failure> {
    let deadline = Instant::now() + within;
    let mut delays = delays();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let answered = send(database, command.clone(), left).await;
        let failure = match answered {
            Ok(reply) => match read(&reply) {
                Some(told) => return Ok(told),
                None => Failure::Reply,
            },
            Err(failure) => failure,
        };
        let delay = delays.next().unwrap_or(DELAY_MAX);
        if !failure.is_passing() || Instant::now() + delay >= deadline {
            return Err(failure);
        }
        sleep(delay).await;
    }
}

/// Runs a command once, and returns its first answer of any kind.
pub(super) async fn send(
    database: &Database,
    mut command: Document,
    within: Duration,
) -> Result<Document, Failure> {
    let deadline = Instant::now() + within;
    command.insert("maxTimeMS", max_time_ms(within));
    // A read must not go to a secondary, whatever the client's read preference is.
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let options = RunCommandOptions::builder().selection_criteria(primary).build();
    let database = database.clone();
    let running =
        tokio::spawn(async move { database.run_command(command).with_options(options).await });
    // Dropping the handle does not stop the task.
    let Ok(Ok(answered)) = timeout_at(deadline, running).await else {
        return Err(Failure::Deadline);
    };
    let reply = answered.map_err(Failure::Driver)?;
    // The driver returns a write-concern error inside a reply that says "ok".
    match reply.get("writeConcernError") {
        None => Ok(reply),
        Some(error) => Err(Failure::WriteConcern(write_concern_text(error.as_document(), error))),
    }
}

fn write_concern_text(document: Option<&Document>, error: &mongodb::bson::Bson) -> String {
    let Some(document) = document else { return error.to_string() };
    let message = document.get_str("errmsg").ok().filter(|message| !message.is_empty());
    message.or(document.get_str("codeName").ok()).unwrap_or("no reason given").to_owned()
}

/// The server's time limit for a command. The server gives up a little earlier than we do, so its answer reaches us.
fn max_time_ms(left: Duration) -> i64 {
    const AHEAD_MAX: Duration = Duration::from_millis(250);
    let left = left - (left / 8).min(AHEAD_MAX);
    // The server accepts a 32-bit number.
    i64::try_from(left.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::from(i32::MAX))
}
