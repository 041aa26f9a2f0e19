//! Sends commands: each in a task of its own, within a bounded time, and reads again after a failure that may pass.
//!
//! A future of the driver's is never dropped: that would close its connection, and the server would go on all the same.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use mongodb::Database;
use mongodb::bson::Document;
use mongodb::options::{ReadPreference, RunCommandOptions, SelectionCriteria};
use tokio::time::{Instant, sleep, timeout_at};

use super::error::Failure;

/// The longest wait between two tries.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// The growing waits between two tries, without end. By chance, so that those who began together do not come together.
pub(super) fn delays() -> impl Iterator<Item = Duration> + Send + Unpin {
    ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(DELAY_MAX)
        .without_max_times()
        .build()
}

/// Runs a command until `read` has what it is to tell, or the time is over. Only for commands that change nothing.
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

/// Runs a command once: its first answer counts, whatever it is.
pub(super) async fn send(
    database: &Database,
    mut command: Document,
    within: Duration,
) -> Result<Document, Failure> {
    let deadline = Instant::now() + within;
    command.insert("maxTimeMS", max_time_ms(within));
    // A read must not go to a secondary, whatever the client prefers.
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let options = RunCommandOptions::builder().selection_criteria(primary).build();
    let database = database.clone();
    let running =
        tokio::spawn(async move { database.run_command(command).with_options(options).await });
    // A handle that is dropped leaves its task alone.
    let Ok(Ok(answered)) = timeout_at(deadline, running).await else {
        return Err(Failure::Deadline);
    };
    let reply = answered.map_err(Failure::Driver)?;
    // The driver hands a write-concern error back inside a reply that says "ok".
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

/// For how long the server may try, if we wait for so long: it gives up before we do, and says so.
fn max_time_ms(left: Duration) -> i64 {
    const AHEAD_MAX: Duration = Duration::from_millis(250);
    let left = left - (left / 8).min(AHEAD_MAX);
    // The server takes a 32-bit number.
    i64::try_from(left.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::from(i32::MAX))
}
