//! Every command that is sent, a file each: how it is written, and how its reply is read.
//!
//! Three rules hold for all of them.
//!
//! - A text of the user's never stands bare in a pipeline, where a leading `$` would make it an expression: it goes
//!   through [`literal`].
//! - What is written says itself that a majority has to have it, on disk, whatever the client's defaults are.
//! - Comparisons are by the simple collation: a collection may have another one, and `A` is not `a`.

pub(crate) mod acquire;
mod command;
pub(crate) mod failure;
pub(crate) mod fast_acquire;
pub(crate) mod find;
pub(crate) mod guard;
pub(crate) mod heartbeat;
pub(crate) mod indexes;
pub(crate) mod probe;
mod queue;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod reply;
pub(crate) mod snapshot;
pub(crate) mod standalone_token;
pub(crate) mod token;
pub(crate) mod tombstone;
pub(crate) mod watch;
mod write_error;

pub(crate) use command::Command;

#[cfg(test)]
mod tests;

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use crate::rules::time::millis_up;
use crate::schema;

/// A user's text or document where an expression could stand.
fn literal(value: impl Into<Bson>) -> Document {
    doc! { "$literal": value.into() }
}

/// Acknowledged by a majority, and in the journal.
fn majority() -> Document {
    doc! { "w": "majority", "j": true }
}

/// Only what a majority has.
fn majority_read() -> Document {
    doc! { "level": "majority" }
}

/// Byte by byte.
fn simple_collation() -> Document {
    doc! { "locale": "simple" }
}

/// A path within the grant, as a field name: `grant.id`.
fn grant_field(field: &str) -> String {
    format!("{}.{field}", schema::GRANT)
}

/// A path as an expression: `$grant.id`.
fn path(field: &str) -> String {
    format!("${field}")
}

/// That the field is a date. Without it comparisons go by BSON's order of types, and nine of eleven foreign types
/// would count as expired.
fn is_date(field: &str) -> Document {
    doc! { "$eq": [{ "$type": path(field) }, "date"] }
}

/// The server's clock and so much more.
fn now_plus(duration: Duration) -> Document {
    doc! { "$add": ["$$NOW", millis_up(duration)] }
}

/// One more than the number of our writes so far.
fn one_more_write() -> Document {
    let writes = path(&grant_field(schema::grant::WRITES));
    let so_far = doc! { "$cond": [{ "$isNumber": &writes }, &writes, 0] };
    doc! { "$add": [so_far, 1] }
}

/// A moment on our own clock, as the database keeps it for us.
fn echo(sent: crate::rules::time::Instant) -> i64 {
    i64::try_from(sent.as_nanos()).unwrap_or(i64::MAX)
}

/// One command that changes every document that this filter matches.
fn update_many(collection: &str, filter: Document, set: Document) -> Document {
    doc! {
        "update": collection,
        "updates": [{
            "q": filter,
            "u": [{ "$set": set }],
            "multi": true,
            "collation": simple_collation(),
        }],
        "writeConcern": majority(),
    }
}

/// The filter for one lease in one holder's hands.
fn held(name: &str, value: &str, grant_id: Option<&str>) -> Document {
    let mut filter = doc! { schema::NAME: name, schema::VALUE: value };
    if let Some(id) = grant_id {
        filter.insert(grant_field(schema::grant::ID), id);
    }
    filter
}
