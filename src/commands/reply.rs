//! Replies of write commands: how many documents they touched, and which statements failed.

use mongo_lease_core::rules::outcome::{self, MAYBE_APPLIED, Outcome, REFUSED};
use mongo_lease_core::rules::time::Instant;
use mongodb::bson::{Bson, Document};
use mongodb::error::Error as DriverError;

use super::token;
use super::write_error::driver_write_error;
use crate::commands::failure::Cause;
use crate::token::Token;

/// The outcome of a release, for all of its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// How many leases were released.
    pub(crate) count: i64,
    /// The time of its last write or a later one, by the oplog.
    pub(crate) at: Option<Token>,
}

impl Ended {
    /// Adds up this release and a later one.
    pub(crate) fn and(self, later: Ended) -> Ended {
        Ended { count: self.count + later.count, at: later.at.or(self.at) }
    }

    /// Whether all of `count` leases were released.
    pub(crate) fn are_all_of(self, count: usize) -> bool {
        usize::try_from(self.count) == Ok(count)
    }
}

/// The outcome of a command about grants or entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewed {
    /// When it was sent: renewed leases are valid from here.
    pub(crate) sent: Instant,
    /// How many documents it matched.
    pub(crate) matched: i64,
}

/// Decodes how many leases were released, whether their documents were deleted or became tombstones.
pub(super) fn decode_counted(reply: &Document) -> Result<Ended, Cause> {
    let without = || Cause::Reply("the reply to a release contains no count".to_owned());
    Ok(Ended { count: count(reply).ok_or_else(without)?, at: token::of_reply(reply).ok() })
}

/// Decodes the reply of an `update` command. Its one statement may match many documents.
pub(super) fn decode_update(reply: &Document, sent: Instant) -> Result<Renewed, Cause> {
    no_write_error(reply, usize::MAX)?;
    match count(reply) {
        Some(matched) => Ok(Renewed { sent, matched }),
        None => Err(Cause::Reply("the reply to an update contains no count".to_owned())),
    }
}

/// How many documents a write command reports as affected.
pub(super) fn count(reply: &Document) -> Option<i64> {
    let number = reply.get("n")?;
    number.as_i64().or_else(|| number.as_i32().map(i64::from))
}

/// Returns an error if one of this many statements of a write command failed. The reply then still says "ok".
pub(super) fn no_write_error(reply: &Document, statements: usize) -> Result<(), Cause> {
    let Ok([first, ..]) = reply.get_array("writeErrors").map(Vec::as_slice) else {
        return Ok(());
    };
    let (source, outcome) = write_error(first)?;
    // The other statements may have been carried out, and each can be tried alone.
    let outcome = if statements > 1 { MAYBE_APPLIED } else { outcome };
    Err(Cause::Write { source, outcome })
}

/// Statements that the server refused for good: their positions, and the first refusal.
pub(crate) type RefusedStatements = (Vec<usize>, DriverError);

/// Returns the statements that the server refused for good, if nothing else went wrong.
pub(super) fn refused_statements(
    reply: &Document,
    statements: usize,
) -> Result<Option<RefusedStatements>, Cause> {
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

/// The driver's form of a statement's error, and the outcome of that statement.
fn write_error(error: &Bson) -> Result<(DriverError, Outcome), Cause> {
    let error = error.as_document();
    let message = error.and_then(|error| error.get_str("errmsg").ok());
    let message = message.unwrap_or("a write failed, and the server does not say why");
    let code = error.and_then(|error| error.get_i32("code").ok());
    let read = code.and_then(|code| Some((driver_write_error(code, message)?, code)));
    let (source, code) = read.ok_or_else(|| Cause::Reply(message.to_owned()))?;
    Ok((source, outcome::of_write_error(code)))
}
