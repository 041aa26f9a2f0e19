//! Replies of write commands: how many documents they touched, and which statements failed.

use crate::bson::{Bson, Document, Timestamp};
use crate::rules::outcome::{self, MAYBE_APPLIED, Outcome, REFUSED};
use crate::rules::time::Instant;

use super::token;
use crate::commands::{DecodeError, StatementError};

/// The outcome of a release, for all of its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How many leases were released.
    pub count: i64,
    /// The time of its last write or a later one, by the oplog.
    pub at: Option<Timestamp>,
}

impl Ended {
    /// Adds up this release and a later one.
    pub fn and(self, later: Ended) -> Ended {
        Ended { count: self.count + later.count, at: later.at.or(self.at) }
    }

    /// Whether all of `count` leases were released.
    pub fn are_all_of(self, count: usize) -> bool {
        usize::try_from(self.count) == Ok(count)
    }
}

/// The outcome of a command about grants or entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// When it was sent: renewed leases are valid from here.
    pub sent: Instant,
    /// How many documents it matched.
    pub matched: i64,
}

/// Decodes how many leases were released, whether their documents were deleted or became tombstones.
pub(super) fn decode_counted(reply: &Document) -> Result<Ended, DecodeError> {
    let without = || DecodeError::Reply("the reply to a release contains no count".to_owned());
    Ok(Ended { count: count(reply).ok_or_else(without)?, at: token::of_reply(reply).ok() })
}

/// Decodes the reply of an `update` command. Its one statement may match many documents.
pub(super) fn decode_update(reply: &Document, sent: Instant) -> Result<Renewed, DecodeError> {
    no_write_error(reply, usize::MAX)?;
    match count(reply) {
        Some(matched) => Ok(Renewed { sent, matched }),
        None => Err(DecodeError::Reply("the reply to an update contains no count".to_owned())),
    }
}

/// How many documents a write command reports as affected.
pub(super) fn count(reply: &Document) -> Option<i64> {
    let number = reply.get("n")?;
    number.as_i64().or_else(|| number.as_i32().map(i64::from))
}

/// Returns an error if one of this many statements of a write command failed. The reply then still says "ok".
pub(super) fn no_write_error(reply: &Document, statements: usize) -> Result<(), DecodeError> {
    let Ok([first, ..]) = reply.get_array("writeErrors").map(Vec::as_slice) else {
        return Ok(());
    };
    let (source, outcome) = write_error(first)?;
    // The other statements may have been carried out, and each can be tried alone.
    let outcome = if statements > 1 { MAYBE_APPLIED } else { outcome };
    Err(DecodeError::Write { source, outcome })
}

/// Statements that the server refused for good: their positions, and the first refusal.
pub type RefusedStatements = (Vec<usize>, StatementError);

/// Returns the statements that the server refused for good, if nothing else went wrong.
pub(super) fn refused_statements(
    reply: &Document,
    statements: usize,
) -> Result<Option<RefusedStatements>, DecodeError> {
    let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
    let mut refused: Option<RefusedStatements> = None;
    for error in errors {
        let (source, outcome) = write_error(error)?;
        let place = place_of(error).filter(|place| *place < statements && outcome == REFUSED);
        let Some(place) = place else {
            return no_write_error(reply, statements).map(|()| None);
        };
        refused.get_or_insert((Vec::new(), source)).0.push(place);
    }
    Ok(refused)
}

fn place_of(error: &Bson) -> Option<usize> {
    usize::try_from(error.as_document()?.get_i32("index").ok()?).ok()
}

/// The error of a statement, and the outcome of that statement.
fn write_error(error: &Bson) -> Result<(StatementError, Outcome), DecodeError> {
    let error = error.as_document();
    let message = error.and_then(|error| error.get_str("errmsg").ok());
    let message = message.unwrap_or("a write failed, and the server does not say why").to_owned();
    match error.and_then(|error| error.get_i32("code").ok()) {
        Some(code) => Ok((StatementError { code, message }, outcome::of_write_error(code))),
        None => Err(DecodeError::Reply(message)),
    }
}

/// The write-concern error inside a reply that says "ok": the write happened, and may not last.
pub fn write_concern_error(reply: &Document) -> Option<String> {
    let error = reply.get("writeConcernError")?;
    let text = match error.as_document() {
        Some(document) => match document.get_str("errmsg") {
            Ok(message) if !message.is_empty() => message.to_owned(),
            Ok(_) | Err(_) => document.get_str("codeName").unwrap_or("no reason given").to_owned(),
        },
        None => error.to_string(),
    };
    Some(format!("the write is not acknowledged by a majority: {text}"))
}
