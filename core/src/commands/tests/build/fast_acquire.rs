use std::sync::Arc;

use crate::bson::{Bson, Document, doc};
use crate::rules::guesses::FastForm;

use super::super::paths::assert_same;
use super::super::{SENT, joining, request, take};
use super::{
    ECHO, literal, majority, one_more, projection, projection_without_queue, simple, update,
};
use crate::commands::Command;
use crate::commands::acquire::AcquireRequest;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany};

/// The new document: changed if the lease has no holder, and the queue has no entry, live or expired.
fn pipeline() -> Vec<Document> {
    let absent = doc! { "$in": [{ "$type": "$expiresAt" }, ["missing", "null"]] };
    let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    let expired = doc! { "$lte": ["$expiresAt", "$$NOW"] };
    let has_no_holder = doc! { "$or": [absent, { "$and": [is_date, expired] }] };
    // Anything but an empty array counts as a queue, even a value of another type.
    let no_queue: Vec<Bson> = Vec::new();
    let queue = doc! { "$ifNull": ["$queue", no_queue.clone()] };
    let has_no_queue = doc! { "$in": [queue, [no_queue]] };
    let grant = doc! {
        "value": literal("$$NOW"),
        "id": literal("$call.3"),
        "sentMicros": ECHO,
        "owner": literal("$owner"),
        "acquiredAt": "$$NOW",
        "ttlMs": 30_000_i64,
        "maxClockSkewMs": 1_000_i64,
        "metadata": { "$literal": { "$meta": "$meta" } },
        "writes": one_more(),
    };
    let granted = doc! {
        "value": literal("$$NOW"),
        "expiresAt": { "$add": ["$$NOW", 31_000_i64] },
        "grant": grant,
    };
    let is_free = doc! { "$and": [has_no_holder, has_no_queue] };
    let changes = doc! { "$cond": [is_free, granted, {}] };
    vec![doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", changes] } }]
}

#[test]
fn a_first_attempt_is_written_out() {
    let wanted = |fields: Document| {
        doc! {
            "findAndModify": "locks",
            "query": { "name": "$name" },
            "update": pipeline(),
            "upsert": true,
            "new": true,
            "fields": fields,
            "hint": { "name": 1 },
            "collation": simple(),
            "writeConcern": majority(),
        }
    };
    assert_same(&take().build("locks", SENT), &wanted(projection()));
    // A waiting call has no use for the length of the queue.
    let waiting = FastAcquire {
        request: joining().request,
        attempt_no: 3,
        form: FastForm::LookUp,
        resends: 0,
        first_sent: None,
    };
    assert_same(&waiting.build("locks", SENT), &wanted(projection_without_queue()));
}

#[test]
fn first_attempts_together_are_written_out() {
    let statement = |name: &str| {
        doc! {
            "q": { "name": name },
            "u": pipeline(),
            "upsert": true,
            "hint": { "name": 1 },
            "collation": simple(),
        }
    };
    let other = FastAcquire {
        request: Arc::new(AcquireRequest { name: "$other".to_owned(), ..request() }),
        attempt_no: 3,
        form: FastForm::LookUp,
        resends: 0,
        first_sent: None,
    };
    let many = FastAcquireMany { acquires: vec![take(), other, take()] };
    let statements = ["$name", "$other", "$name"].map(statement).to_vec();
    assert_same(&many.build("locks", SENT), &update(statements, false));
}
