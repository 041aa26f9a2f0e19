//! Sends one command to a server.

use std::time::Duration;

use mongo_lease_core::commands::{Command, write_concern_error};
use mongo_lease_core::rules::{Instant, millis_up};
use mongodb::Database;
use mongodb::bson::Document;
use mongodb::options::{ReadPreference, RunCommandOptions, SelectionCriteria};

use crate::failure::{Cause, Failure, decode_failure, driver_failure};

/// The command with a read of the primary's newest data, if it reads majority-committed data. A time after which it has
/// to read stays.
pub(super) fn local_read(command: &Document) -> Option<Document> {
    const READ_CONCERN: &str = "readConcern";
    const LEVEL: &str = "level";
    if command.get_document(READ_CONCERN).ok()?.get_str(LEVEL).ok()? != "majority" {
        return None;
    }
    let mut local = command.clone();
    local.get_document_mut(READ_CONCERN).ok()?.insert(LEVEL, "local");
    Some(local)
}

pub(super) async fn send<C: Command>(
    database: &Database,
    command: &C,
    document: Document,
    sent: Instant,
) -> Result<C::Reply, Failure> {
    // A read must not go to a secondary, whatever the client's read preference is.
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let options = RunCommandOptions::builder().selection_criteria(primary).build();
    let running = database.run_command(document).with_options(options);
    let reply = running.await.map_err(driver_failure)?;
    if let Some((message, outcome)) = write_concern_error(&reply) {
        return Err(Failure { outcome, cause: Cause::WriteConcern(message) });
    }
    command.decode(&reply, sent).map_err(decode_failure)
}

/// The server accepts a 32-bit number.
const MAX_TIME_MS_MAX: i64 = i32::MAX as i64;

/// The server's time limit for a command, if we wait for `left`. The server gives up a little earlier than we do: its
/// answer distinguishes a document that a transaction blocks from a server that does not answer.
pub(super) fn max_time_ms(left: Duration, at_most: Duration) -> i64 {
    const AHEAD_MAX: Duration = Duration::from_millis(250);
    let left = left - (left / 8).min(AHEAD_MAX);
    millis_up(left.min(at_most)).clamp(1, MAX_TIME_MS_MAX)
}
