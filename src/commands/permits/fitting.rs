//! How many waiters fit, and the fields that their admission changes.

use mongo_lease_core::format::{self, entry, grant, holder};
use mongo_lease_core::rules::permits::LIMIT_MAX;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::{EACH, asked, of_each, of_kept, with};
use crate::commands::{literal, one_more_write, path, queue};

/// The variables: the entries that count, how many of them are admitted, and those that are and are not.
const LINE: &str = "$$line";
const COUNT: &str = "$$count";
const ADMITTED: &str = "$$admitted";
const REST: &str = "$$rest";
const ALL: &str = "$$all";
const TOLD: &str = "$$told";
const FIRST: &str = "$$first";

/// More than a queue may have.
const LENGTH_MAX: i32 = 10_000;

/// The document after the admission of as many waiters as fit. In scope are `$$kept` and `$$open`, whether anybody may
/// be admitted.
pub(super) struct Filling<'a> {
    /// The entries that count, in order.
    pub(super) line: Document,
    /// The caller's value, where it asks to be admitted. It is alive, so it gets its whole ttl.
    pub(super) asker: Option<&'a str>,
    /// The holders that stay, with what this write changes in them.
    pub(super) refreshed: Bson,
    /// The fields that change where nobody holds the lease afterwards.
    pub(super) nobody: Document,
}

impl Filling<'_> {
    /// The fields that change. `on` chooses from them, with the holders after the write in `$$all`.
    pub(super) fn changes(self, on: impl FnOnce(Document) -> Document) -> Document {
        let Filling { line, asker, refreshed, nobody } = self;
        let new = doc! { "$map": { "input": ADMITTED, "as": "entry", "in": holder(asker) } };
        let is_any = doc! { "$gt": [COUNT, 0] };
        let is_exclusive = doc! { "$eq": [&asked(FIRST)[1], 1] };
        let chosen = doc! {
            "$switch": {
                "branches": [
                    { "case": { "$and": [&is_any, is_exclusive] }, "then": exclusive(asker) },
                    { "case": { "$gt": [{ "$size": ALL }, 0] }, "then": shared(asker) },
                ],
                "default": nobody,
            },
        };
        let changes = doc! {
            "$let": {
                "vars": {
                    "all": { "$concatArrays": [refreshed, new] },
                    "told": told(asker),
                    "first": { "$arrayElemAt": [ADMITTED, 0] },
                },
                "in": on(chosen),
            },
        };
        // The server refuses to take no element of a list.
        let admitted = doc! { "$cond": [is_any, { "$slice": [LINE, COUNT] }, []] };
        let rest = doc! { "$slice": [LINE, COUNT, LENGTH_MAX] };
        let vars = doc! { "admitted": admitted, "rest": rest };
        let changes = doc! { "$let": { "vars": vars, "in": changes } };
        let count = with("fit", fitting(), "$$fit.count");
        with("line", line, with("count", count, changes))
    }
}

/// How many entries fit, from the first one on: the first that does not fit blocks the others.
fn fitting() -> Document {
    let [permits, limit] = asked("$$this");
    let limits = doc! { "$concatArrays": [of_kept(holder::LIMIT), [i64::from(LIMIT_MAX)]] };
    let fits = doc! {
        "$cond": [
            { "$lte": ["$$used", "$$bound"] },
            { "count": { "$add": ["$$value.count", 1] }, "used": "$$used", "bound": "$$bound" },
            // Nothing fits behind it.
            { "count": "$$value.count", "used": 0, "bound": -1 },
        ],
    };
    let vars = doc! {
        "used": { "$add": ["$$value.used", permits] },
        "bound": { "$min": ["$$value.bound", limit] },
    };
    doc! {
        "$reduce": {
            "input": LINE,
            "initialValue": {
                "count": 0,
                "used": { "$sum": of_kept(holder::PERMITS) },
                "bound": { "$cond": ["$$open", { "$min": limits }, -1] },
            },
            "in": { "$let": { "vars": vars, "in": fits } },
        },
    }
}

/// Until when an admission lasts. It counts from the waiter's newest heartbeat where `$$NOW` is older.
fn until(of: &str, asker: Option<&str>) -> Document {
    let field = |field: &str| format!("{of}.{field}");
    let life = doc! { "$subtract": [field(entry::EXPIRES_AT), field(entry::HEARTBEAT_AT)] };
    let term = doc! { "$max": [0_i64, { "$min": [field(entry::TTL_MS), life] }] };
    let term = match asker {
        None => term,
        Some(value) => {
            let is_asker = doc! { "$eq": [field(entry::VALUE), literal(value)] };
            doc! { "$cond": [is_asker, field(entry::TTL_MS), term] }
        }
    };
    let from = doc! { "$max": ["$$NOW", field(entry::HEARTBEAT_AT)] };
    doc! { "$add": [from, term, field(entry::MAX_CLOCK_SKEW_MS)] }
}

/// The holder that an entry becomes.
fn holder(asker: Option<&str>) -> Document {
    let [permits, limit] = asked(EACH);
    doc! {
        holder::VALUE: of_each(entry::VALUE),
        holder::ID: of_each(entry::ID),
        holder::SENT_MICROS: of_each(entry::SENT_MICROS),
        holder::OWNER: of_each(entry::OWNER),
        holder::ACQUIRED_AT: "$$NOW",
        holder::EXPIRES_AT: until(EACH, asker),
        holder::TTL_MS: of_each(entry::TTL_MS),
        holder::MAX_CLOCK_SKEW_MS: of_each(entry::MAX_CLOCK_SKEW_MS),
        holder::METADATA: of_each(entry::METADATA),
        holder::PERMITS: permits,
        holder::LIMIT: limit,
        holder::WRITES: 1_i64,
    }
}

/// The fields that change where the first waiter asked for an exclusive lease.
fn exclusive(asker: Option<&str>) -> Document {
    let first = |field: &str| format!("{FIRST}.{field}");
    let echo =
        doc! { "$concat": [first(entry::ID), "@", { "$toString": first(entry::SENT_MICROS) }] };
    doc! {
        format::VALUE: first(entry::VALUE),
        format::GRANT: {
            grant::VALUE: first(entry::VALUE),
            grant::ID: first(entry::ID),
            grant::SENT_MICROS: first(entry::SENT_MICROS),
            grant::OWNER: first(entry::OWNER),
            grant::ACQUIRED_AT: "$$NOW",
            grant::TTL_MS: first(entry::TTL_MS),
            grant::MAX_CLOCK_SKEW_MS: first(entry::MAX_CLOCK_SKEW_MS),
            grant::METADATA: first(entry::METADATA),
            grant::WRITES: one_more_write(),
        },
        format::EXPIRES_AT: until(FIRST, asker),
        format::PROMOTED: echo,
        format::QUEUE: REST,
        // Each later command would carry them until the document is deleted.
        format::HOLDERS: [],
    }
}

/// The fields that change where the lease is in shared use afterwards.
fn shared(asker: Option<&str>) -> Document {
    let before = doc! { "$ifNull": [path(format::ADMITTED), "$$REMOVE"] };
    let mut changes = doc! {
        format::VALUE: format::SHARED_VALUE,
        format::HOLDERS: ALL,
        format::EXPIRES_AT: latest_expiry(),
        format::QUEUE: REST,
        format::ADMITTED: { "$cond": [{ "$eq": [TOLD, ""] }, before, TOLD] },
    };
    if asker.is_none() {
        changes.insert(format::PROMOTED, recheck());
    }
    changes
}

/// The latest expiry of the holders after the write.
fn latest_expiry() -> Document {
    doc! { "$max": format!("{ALL}.{}", holder::EXPIRES_AT) }
}

/// `promoted` after a release: it tells the first waiter where nobody is admitted and the lease ends earlier.
///
/// The waiter sleeps until the end that it has read, and an expiry sends no event. Two releases in one millisecond have
/// different texts, because they have different ends.
fn recheck() -> Document {
    let head = doc! { "$arrayElemAt": [format!("{REST}.{}", entry::ID), 0] };
    let mark = format!("@{}", queue::RECHECK);
    let [now, until] = [Bson::from("$$NOW"), latest_expiry().into()].map(queue::millis);
    let text = doc! { "$concat": [head, mark, now, "-", until] };
    let is_told = doc! {
        "$and": [
            { "$eq": [COUNT, 0] },
            { "$gt": [{ "$size": REST }, 0] },
            { "$lt": [latest_expiry(), path(format::EXPIRES_AT)] },
        ],
    };
    // The document keeps the field as it was.
    doc! { "$cond": [is_told, text, "$$REMOVE"] }
}

/// The text of `admitted`: the waiters that are admitted besides the caller.
fn told(asker: Option<&str>) -> Bson {
    let this = |field: &str| format!("$$this.{field}");
    let millis = queue::millis(until("$$this", asker));
    let sent = doc! { "$toString": this(entry::SENT_MICROS) };
    let text = doc! { "$concat": [this(entry::ID), "@", sent, "@", millis] };
    let gap = doc! { "$cond": [{ "$eq": ["$$value", ""] }, "", " "] };
    let others: Bson = match asker {
        None => ADMITTED.into(),
        Some(value) => {
            let is_other = doc! { "$ne": [of_each(entry::VALUE), literal(value)] };
            doc! { "$filter": { "input": ADMITTED, "as": "entry", "cond": is_other } }.into()
        }
    };
    let text = doc! { "$concat": ["$$value", gap, text] };
    doc! { "$reduce": { "input": others, "initialValue": "", "in": text } }.into()
}

/// The fields that change where nobody holds the lease after a release. It is free by every clock, as a tombstone is.
pub(super) fn ended(value: &str) -> Document {
    let ended = doc! {
        format::VALUE: value,
        format::EXPIRES_AT: DateTime::from_millis(0),
        format::HOLDERS: [],
        format::QUEUE: [],
    };
    doc! { "$cond": ["$$open", ended, { format::QUEUE: REST }] }
}
