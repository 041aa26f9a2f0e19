//! Every command, word for word. The parts that several commands share are written out here once; the commands with
//! the longest pipelines are in `golden/`.

mod acquire;
mod fast_acquire;
mod find;
mod golden;
mod queue;
mod release;
mod renew;
mod renew_holders;
mod sizes;
mod watch;

use crate::bson::{Bson, Document, doc};

/// The echo of the moment at which the commands are built.
const ECHO: i64 = 7_000_001;

fn literal(text: &str) -> Document {
    doc! { "$literal": text }
}

fn majority() -> Document {
    doc! { "w": "majority", "j": true }
}

/// A condition: the document is not damaged.
fn is_sound() -> Document {
    doc! { "$in": [{ "$type": "$expiresAt" }, ["date", "missing", "null"]] }
}

fn simple() -> Document {
    doc! { "locale": "simple" }
}

/// The fields of a lease document that replies show.
fn projection() -> Document {
    let mut fields = projection_without_queue();
    fields.insert("waiting", doc! { "$size": entries() });
    fields
}

fn projection_without_queue() -> Document {
    doc! { "_id": 0, "name": 1, "value": 1, "expiresAt": 1, "grant": 1, "now": "$$NOW" }
}

fn one_more() -> Document {
    one_more_than("$grant.writes")
}

fn one_more_than(number: &str) -> Document {
    doc! { "$add": [{ "$cond": [{ "$isNumber": number }, number, 0] }, 1] }
}

/// An `update` command with these statements.
fn update(statements: Vec<Document>, is_ordered: bool) -> Document {
    let mut command = doc! { "update": "locks", "updates": statements };
    if !is_ordered {
        command.insert("ordered", false);
    }
    command.insert("writeConcern", majority());
    command
}

/// The queue, or an empty one where the field is not an array.
fn entries() -> Document {
    doc! { "$cond": [{ "$isArray": ["$queue"] }, "$queue", []] }
}

/// A condition: the entry has the form that we write.
fn is_entry() -> Document {
    let found = [
        doc! { "$type": "$$each.value" },
        doc! { "$type": "$$each.id" },
        doc! { "$type": "$$each.sentMicros" },
        doc! { "$type": "$$each.heartbeatAt" },
        doc! { "$type": "$$each.expiresAt" },
        doc! { "$type": "$$each.ttlMs" },
        doc! { "$type": "$$each.maxClockSkewMs" },
        doc! { "$type": "$$each.permits" },
        doc! { "$type": "$$each.limit" },
    ];
    let wanted = ["string", "string", "long", "date", "date", "long", "long", "long", "long"];
    let longest = doc! { "$max": ["$$each.ttlMs", "$$each.maxClockSkewMs"] };
    doc! {
        "$and": [
            { "$eq": [found.to_vec(), wanted.to_vec()] },
            { "$lt": [longest, 1_000_000_000_000_i64] },
            { "$lt": ["$$each.heartbeatAt", { "$add": ["$$NOW", 1_000_000_000_000_i64] }] },
            { "$gte": ["$$each.permits", 1] },
            { "$lte": ["$$each.permits", "$$each.limit"] },
            { "$lte": ["$$each.limit", 1_000_i64] },
        ],
    }
}

/// A condition: the entry's waiter is alive and waits.
fn is_live() -> Document {
    doc! {
        "$and": [
            { "$gt": ["$$each.expiresAt", "$$NOW"] },
            { "$ne": ["$$each.value", "$value"] },
        ],
    }
}

fn filtered(input: impl Into<Bson>, condition: Document) -> Document {
    doc! { "$filter": { "input": input.into(), "as": "each", "cond": condition } }
}

/// All live entries.
fn line() -> Document {
    filtered(entries(), doc! { "$and": [is_entry(), is_live()] })
}

/// The fields that a heartbeat changes in an entry that was `old`, which then lives for ten seconds.
fn heartbeat_update(old: &str) -> Document {
    let old = |field: &str| format!("{old}.{field}");
    let overtook = doc! { "$gt": [old("heartbeatAt"), "$$NOW"] };
    doc! {
        "sentMicros": { "$cond": [overtook, old("sentMicros"), ECHO] },
        "heartbeatAt": { "$max": ["$$NOW", old("heartbeatAt")] },
        "expiresAt": { "$max": [old("expiresAt"), { "$add": ["$$NOW", 10_000_i64] }] },
    }
}
