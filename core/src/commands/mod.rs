//! Every command that is sent, one file each: how it is built, and how its reply is decoded.
//!
//! Three rules hold for all of them:
//!
//! - A user's text never goes into a pipeline unquoted, where a leading `$` would make it an expression: it goes
//!   through `literal`.
//! - Each write requests acknowledgement by a majority, in the journal, whatever the client's defaults are.
//! - Comparisons use the simple collation: the collection's own may treat `A` and `a` as equal.

pub mod acquire;
mod acquire_parts;
mod acquire_reply;
mod admission;
mod command;
pub mod fast_acquire;
pub mod fast_admit;
pub mod find;
pub mod find_holders;
pub mod guard;
pub mod heartbeat;
pub mod indexes;
#[cfg(feature = "memory")]
pub mod memory;
pub mod probe;
mod queue;
pub mod release;
mod release_target;
pub mod renew;
pub mod renew_holders;
pub mod reply;
pub mod snapshot;
pub mod standalone_token;
pub mod token;
pub mod tombstone;
mod variables;
pub mod watch;

pub use self::{
    acquire::*, fast_acquire::*, fast_admit::*, find::*, find_holders::*, guard::*, heartbeat::*,
    indexes::*, probe::*, release::*, renew::*, renew_holders::*, reply::*, snapshot::*,
    standalone_token::*, token::*, tombstone::*, watch::*,
};
pub use command::{Command, DecodeError, InMemory, StatementError};

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::bson::{Bson, Document, doc};

use crate::format;
use crate::rules::time::{Instant, millis_up};

/// Quotes a user's text or document where an expression could be.
fn literal(value: impl Into<Bson>) -> Document {
    doc! { "$literal": value.into() }
}

/// The write concern: acknowledged by a majority, and in the journal.
fn majority() -> Document {
    doc! { "w": "majority", "j": true }
}

/// The read concern: only majority-committed data.
fn majority_read() -> Document {
    doc! { "level": "majority" }
}

/// The collation that compares byte by byte.
fn simple_collation() -> Document {
    doc! { "locale": "simple" }
}

/// A path within the grant, as a field name: `grant.id`.
fn grant_field(field: &str) -> String {
    format!("{}.{field}", format::GRANT)
}

/// A path as an expression: `$grant.id`.
fn path(field: &str) -> String {
    format!("${field}")
}

/// True if the field is a date. Without this check comparisons use BSON's order of types, and nine of eleven foreign
/// types would count as expired.
fn is_date(field: &str) -> Document {
    doc! { "$eq": [{ "$type": path(field) }, "date"] }
}

/// True if the expiry is a date, or there is none. A document with any other expiry is damaged: nothing is written to
/// it. As a filter it goes into `$expr`, because the server would answer a plain test of the type by the TTL index, and
/// could read all of that.
fn has_sound_expiry() -> Document {
    doc! { "$in": [{ "$type": path(format::EXPIRES_AT) }, ["date", "missing", "null"]] }
}

/// The server's clock plus `duration`.
fn now_plus(duration: Duration) -> Document {
    doc! { "$add": ["$$NOW", millis_up(duration)] }
}

/// The number of our writes so far, plus one.
fn one_more_write() -> Document {
    one_more(&path(&grant_field(format::grant::WRITES)))
}

/// The number at this path, plus one. Another type counts as zero: it would fail the whole command.
fn one_more(number: &str) -> Document {
    let so_far = doc! { "$cond": [{ "$isNumber": number }, number, 0] };
    doc! { "$add": [so_far, 1] }
}

/// The echo: a moment on this process's clock in microseconds, rounded down, stored in the document and read back.
fn echo(sent: Instant) -> i64 {
    i64::try_from(sent.as_micros()).unwrap_or(i64::MAX)
}

/// Builds one command of statements, of which each changes every document that its filter matches.
fn update_each(collection: &str, statements: Vec<(Document, Document)>) -> Document {
    let is_one = statements.len() == 1;
    let statement = |(filter, set): (Document, Document)| {
        doc! {
            "q": filter,
            "u": [{ "$set": set }],
            "multi": true,
            "collation": simple_collation(),
        }
    };
    let updates: Vec<Document> = statements.into_iter().map(statement).collect();
    let mut command = doc! { "update": collection, "updates": updates };
    if !is_one {
        command.insert("ordered", false);
    }
    command.insert("writeConcern", majority());
    command
}

/// The filter for one lease held by one holder.
fn held(name: &str, value: &str, grant_id: Option<&str>) -> Document {
    let mut filter = doc! { format::NAME: name, format::VALUE: value };
    if let Some(id) = grant_id {
        filter.insert(grant_field(format::grant::ID), id);
    }
    filter
}
