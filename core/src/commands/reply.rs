//! Replies of write commands: how many documents they touched, and which statements failed.

use super::*;
use crate::rules::outcome::{self, MAYBE_APPLIED, NOT_APPLIED, Outcome, REFUSED};

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
pub struct Matched {
    /// When it was sent: renewed leases are valid from here.
    pub sent: Instant,
    /// How many documents it matched.
    pub matched: i64,
}

/// The token of a grant: the time of the write that granted, which the server names in its reply.
///
/// Only for replies that granted. A no-op and a read report the time of another write.
///
/// # Errors
///
/// If the reply has no time.
pub fn token(reply: &Document) -> Result<Timestamp, DecodeError> {
    let text = "the server's replies have no operationTime, which fencing tokens are made from";
    reply.get_timestamp("operationTime").map_err(|_| DecodeError::Unsupported(text.to_owned()))
}

/// Decodes how many leases were released, whether their documents were deleted or became tombstones.
pub(crate) fn decode_counted(reply: &Document) -> Result<Ended, DecodeError> {
    Ok(Ended { count: count(reply)?, at: token(reply).ok() })
}

/// Decodes the reply of an `update` command. Its one statement may match many documents.
pub(crate) fn decode_update(reply: &Document, sent: Instant) -> Result<Matched, DecodeError> {
    no_write_error(reply, usize::MAX)?;
    Ok(Matched { sent, matched: count(reply)? })
}

/// How many documents a write command reports as affected.
pub(super) fn count(reply: &Document) -> Result<i64, DecodeError> {
    number(reply, "n").ok_or_else(|| malformed("the reply to a write contains no count"))
}

/// A number in a reply, of either type.
pub(super) fn number(reply: &Document, field: &str) -> Option<i64> {
    let number = reply.get(field)?;
    number.as_i64().or_else(|| number.as_i32().map(i64::from))
}

/// The errors of the statements that failed. The reply then still says "ok".
pub(super) fn write_errors(reply: &Document) -> &[Bson] {
    reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default()
}

/// Returns an error if one of this many statements of a write command failed.
pub(crate) fn no_write_error(reply: &Document, statements: usize) -> Result<(), DecodeError> {
    let Some(first) = write_errors(reply).first() else { return Ok(()) };
    let (source, outcome) = write_error(first)?;
    // The other statements may have been carried out, and each can be tried alone.
    let outcome = if statements > 1 { MAYBE_APPLIED } else { outcome };
    Err(DecodeError::Write { source, outcome })
}

/// Statements that the server refused for good: their positions, and the first refusal.
pub type RefusedStatements = (Vec<usize>, StatementError);

/// Returns the statements that the server refused for good, if nothing else went wrong.
pub(crate) fn refused_statements(
    reply: &Document,
    statements: usize,
) -> Result<Option<RefusedStatements>, DecodeError> {
    let mut refused: Option<RefusedStatements> = None;
    for error in write_errors(reply) {
        let (source, outcome) = write_error(error)?;
        let place = place_of(error).filter(|place| *place < statements && outcome == REFUSED);
        let Some(place) = place else {
            return no_write_error(reply, statements).map(|()| None);
        };
        refused.get_or_insert((Vec::new(), source)).0.push(place);
    }
    Ok(refused)
}

/// The position of the statement that failed.
pub(super) fn place_of(error: &Bson) -> Option<usize> {
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

/// The write-concern error inside a reply that says "ok", and the outcome: what the command wrote, if anything, may not
/// last.
pub fn write_concern_error(reply: &Document) -> Option<(String, Outcome)> {
    let error = reply.get("writeConcernError")?;
    let text = match error.as_document() {
        Some(document) => match document.get_str("errmsg") {
            Ok(message) if !message.is_empty() => message.to_owned(),
            Ok(_) | Err(_) => document.get_str("codeName").unwrap_or("no reason given").to_owned(),
        },
        None => error.to_string(),
    };
    // An update or a delete that matched nothing waits for the majority all the same.
    let outcome = if reply.get_i32("n").ok() == Some(0) { NOT_APPLIED } else { MAYBE_APPLIED };
    Some((format!("the write is not acknowledged by a majority: {text}"), outcome))
}
