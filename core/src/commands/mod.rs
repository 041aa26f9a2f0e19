//! Every command that is sent: how it is built, and how its reply is decoded.
//!
//! Three rules hold for all of them:
//!
//! - A user's text never goes into a pipeline unquoted, where a leading `$` would make it an expression: it goes
//!   through `literal`.
//! - Each write requests acknowledgement by a majority, in the journal, whatever the client's defaults are.
//! - Comparisons use the simple collation: the collection's own may treat `A` and `a` as equal.
//!
//! This file has the words that the others share: each of them begins with `use super::*`.

pub mod acquire;
mod acquire_parts;
mod acquire_reply;
mod admission;
mod command;
pub mod confirm;
pub mod fast_acquire;
pub mod find;
pub mod heartbeat;
pub mod indexes;
pub mod probe;
mod queue;
pub mod release;
mod release_target;
pub mod renew;
pub mod renew_holders;
pub mod reply;
pub mod snapshot;
#[cfg(all(test, feature = "__tests"))]
mod tests;
pub mod transaction;
mod variables;
pub mod watch;

pub(crate) use self::reply::{decode_counted, decode_update, no_write_error, refused_statements};
pub(crate) use self::variables::{Scope, Variable, bind, filter, in_scope, map, reduce};
pub use self::{
    acquire::*, fast_acquire::*, find::*, heartbeat::*, indexes::*, probe::*, release::*, renew::*,
    renew_holders::*, transaction::*, watch::*,
};
pub use command::{Command, DecodeError, StatementError};
pub use confirm::{FindWritten, Reliance, Trace, Unconfirmed, Written, applied, are_shown};
pub use reply::{Ended, Matched, RefusedStatements, write_concern_error};
pub use snapshot::LeaseSnapshot;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::format::{self, entry, grant, holder};
use crate::info::{LeaseInfo, LeaseState};
use crate::rules::ids::{CallId, GrantId};
use crate::rules::permits::{LIMIT_MAX, Permits};
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, from_millis, millis_up};
use crate::rules::timing::Timing;

/// A list without elements, as an expression or a field.
const NO_ELEMENT: Bson = Bson::Array(Vec::new());

/// Quotes a user's text or document where an expression could be.
fn literal(value: impl Into<Bson>) -> Document {
    doc! { "$literal": value.into() }
}

/// One of two values, by a condition.
fn cond(is: impl Into<Bson>, then: impl Into<Bson>, otherwise: impl Into<Bson>) -> Document {
    doc! { "$cond": [is.into(), then.into(), otherwise.into()] }
}

/// A condition: all of these hold.
fn all(conditions: impl IntoIterator<Item = Document>) -> Document {
    doc! { "$and": conditions.into_iter().collect::<Vec<_>>() }
}

/// A condition: one of these holds.
fn any(conditions: impl IntoIterator<Item = Document>) -> Document {
    doc! { "$or": conditions.into_iter().collect::<Vec<_>>() }
}

/// A condition: this one does not hold.
fn not(condition: impl Into<Bson>) -> Document {
    doc! { "$not": condition.into() }
}

/// A condition: these are equal.
fn eq(left: impl Into<Bson>, right: impl Into<Bson>) -> Document {
    doc! { "$eq": [left.into(), right.into()] }
}

/// A condition: the value is in the list.
fn is_in(value: impl Into<Bson>, list: impl Into<Bson>) -> Document {
    doc! { "$in": [value.into(), list.into()] }
}

/// The later of two dates, or the larger of two numbers.
fn max(one: impl Into<Bson>, other: impl Into<Bson>) -> Document {
    doc! { "$max": [one.into(), other.into()] }
}

/// A document with these fields in place of its own.
fn merge(document: impl Into<Bson>, changes: impl Into<Bson>) -> Document {
    doc! { "$mergeObjects": [document.into(), changes.into()] }
}

/// The document with one field more.
fn with(mut document: Document, field: impl Into<String>, value: impl Into<Bson>) -> Document {
    document.insert(field, value);
    document
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

/// A path as an expression: `$value`.
fn path(field: &str) -> String {
    format!("${field}")
}

/// A path within the grant as an expression: `$grant.id`.
fn grant_path(field: &str) -> String {
    path(&grant_field(field))
}

/// True if the field is a date. Without this check comparisons use BSON's order of types, and nine of eleven foreign
/// types would count as expired.
fn is_date(field: &str) -> Document {
    eq(doc! { "$type": path(field) }, "date")
}

/// True if the expiry is a date, or there is none. A document with any other expiry is damaged: nothing is written to
/// it. As a filter it goes into `$expr`, because the server would answer a plain test of the type by the TTL index, and
/// could read all of that.
fn has_sound_expiry() -> Document {
    let types = ["date", "missing", "null"].map(Bson::from);
    is_in(doc! { "$type": path(format::EXPIRES_AT) }, types.to_vec())
}

/// The server's clock plus so many milliseconds.
fn now_plus(millis: impl Into<Bson>) -> Document {
    doc! { "$add": ["$$NOW", millis.into()] }
}

/// The number of our writes so far, plus one.
fn one_more_write() -> Document {
    one_more(&grant_path(grant::WRITES))
}

/// The number at this path, plus one. Another type counts as zero: it would fail the whole command.
fn one_more(number: &str) -> Document {
    doc! { "$add": [cond(doc! { "$isNumber": number }, number, 0), 1] }
}

/// The echo: a moment on this process's clock in microseconds, rounded down, stored in the document and read back.
pub fn echo(sent: Instant) -> i64 {
    i64::try_from(sent.as_micros()).unwrap_or(i64::MAX)
}

/// A write of many statements: each is carried out, whatever becomes of the others.
fn update_many(collection: &str, statements: Vec<Document>) -> Document {
    doc! {
        "update": collection,
        "updates": statements,
        "ordered": false,
        "writeConcern": majority(),
    }
}

/// A write of one statement.
fn update_one(collection: &str, statement: Document) -> Document {
    doc! { "update": collection, "updates": [statement], "writeConcern": majority() }
}

/// Either of both.
fn update_each(collection: &str, mut statements: Vec<Document>) -> Document {
    match statements.len() {
        1 => update_one(collection, statements.remove(0)),
        _ => update_many(collection, statements),
    }
}

/// A statement that changes the one document that the filter matches, by a pipeline or to a new one.
fn statement(filter: Document, changes: impl Into<Bson>) -> Document {
    doc! { "q": filter, "u": changes.into(), "collation": simple_collation() }
}

/// A statement that changes every document that the filter matches.
fn statement_for_each(filter: Document, stages: Vec<Document>) -> Document {
    doc! { "q": filter, "u": stages, "multi": true, "collation": simple_collation() }
}

/// A pipeline that sets these fields.
fn set(fields: Document) -> Vec<Document> {
    vec![doc! { "$set": fields }]
}

/// A write to one document that shows these fields of it after the change, or nothing where the query matches none.
fn find_and_modify(
    collection: &str,
    query: Document,
    update: impl Into<Bson>,
    fields: Document,
) -> Document {
    doc! {
        "findAndModify": collection,
        "query": query,
        "update": update.into(),
        "new": true,
        "fields": fields,
        "collation": simple_collation(),
        "writeConcern": majority(),
    }
}

/// The error of a reply that is not what it should be.
fn malformed(text: &str) -> DecodeError {
    DecodeError::Reply(text.to_owned())
}

/// A text of a document; `None` for another type.
fn text(document: &Document, field: &str) -> Option<String> {
    document.get_str(field).ok().map(str::to_owned)
}
