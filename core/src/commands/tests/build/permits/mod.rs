//! The commands for leases in shared use, word for word. The parts that several of them have are written out once.

mod admit;
mod release;
mod renew;
mod sizes;

use std::sync::Arc;

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::permits::Permits;

use super::super::{joining, request};
use super::{entries, filtered, is_entry, is_live, literal, one_more};
use crate::commands::acquire::AcquireRequest;
use crate::commands::permits::{Admit, FastAdmit};

/// Two permits of five.
fn two_of_five() -> Permits {
    Permits::new(2, 5).unwrap()
}

fn admit_of(request: Arc<AcquireRequest>) -> Admit {
    Admit { request, permits: two_of_five(), attempt: 3 }
}

/// A call that does not wait, and one that does.
fn admits() -> [Admit; 2] {
    [admit_of(Arc::new(request())), admit_of(joining().request)]
}

fn fast_admit() -> FastAdmit {
    FastAdmit { request: Arc::new(request()), permits: two_of_five(), attempt: 3 }
}

fn with(name: &str, value: impl Into<Bson>, inner: impl Into<Bson>) -> Document {
    doc! { "$let": { "vars": { name: value.into() }, "in": inner.into() } }
}

/// The list of holders, or an empty one where the field is not an array.
fn elements() -> Document {
    doc! { "$cond": [{ "$isArray": ["$holders"] }, "$holders", []] }
}

/// A condition: the list counts.
fn is_shared() -> Document {
    let found = [
        doc! { "$type": "$$entry.value" },
        doc! { "$type": "$$entry.id" },
        doc! { "$type": "$$entry.expiresAt" },
        doc! { "$type": "$$entry.ttlMs" },
        doc! { "$type": "$$entry.maxClockSkewMs" },
        doc! { "$type": "$$entry.permits" },
        doc! { "$type": "$$entry.limit" },
    ];
    let wanted = ["string", "string", "date", "long", "long", "long", "long"];
    let is_holder = doc! {
        "$and": [
            { "$eq": [found.to_vec(), wanted.to_vec()] },
            { "$gte": ["$$entry.permits", 1] },
        ],
    };
    let each = doc! { "$map": { "input": "$$elements", "as": "entry", "in": is_holder } };
    doc! {
        "$and": [
            { "$eq": ["$value", "mongo-lease/shared"] },
            { "$eq": [{ "$type": "$expiresAt" }, "date"] },
            { "$gt": [{ "$size": "$$elements" }, 0] },
            { "$allElementsTrue": [each] },
        ],
    }
}

fn is_free() -> Document {
    let absent = doc! { "$in": [{ "$type": "$expiresAt" }, ["missing", "null"]] };
    let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    let expired = doc! { "$lte": ["$expiresAt", "$$NOW"] };
    doc! { "$or": [absent, { "$and": [is_date, expired] }] }
}

fn is_unexpired() -> Document {
    doc! { "$gt": ["$$entry.expiresAt", "$$NOW"] }
}

/// A condition on a holder or an entry: it is the caller's own.
fn is_own() -> Document {
    doc! { "$eq": ["$$entry.value", literal("$$NOW")] }
}

/// The permits and the limit of an entry: one of one where it has none.
fn share(of: &str) -> [Document; 2] {
    [
        doc! { "$ifNull": [format!("{of}.permits"), 1_i64] },
        doc! { "$ifNull": [format!("{of}.limit"), 1_i64] },
    ]
}

/// The entries that count: those with a valid share of waiters that are alive and hold nothing, and `own` ones.
fn line(own: Option<Document>) -> Document {
    let types = [doc! { "$type": "$$entry.permits" }, doc! { "$type": "$$entry.limit" }];
    let [permits, limit] = share("$$entry");
    let has_valid_share = doc! {
        "$and": [
            { "$in": [types.to_vec(), [["long", "long"], ["missing", "missing"]]] },
            { "$gte": [&permits, 1] },
            { "$lte": [permits, &limit] },
            { "$lte": [limit, 1_000_i64] },
        ],
    };
    let holds = doc! { "$in": ["$$entry.value", "$$kept.value"] };
    let waits = doc! { "$and": [is_live(), { "$not": holds }] };
    let counts = own.map_or(waits.clone(), |own| doc! { "$or": [own, waits] });
    filtered(entries(), doc! { "$and": [is_entry(), has_valid_share, counts] })
}

/// How many of `$$line` fit, from the first one on.
fn fit() -> Document {
    let [permits, limit] = share("$$this");
    let limits = doc! { "$concatArrays": ["$$kept.limit", [1_000_i64]] };
    let next =
        doc! { "count": { "$add": ["$$value.count", 1] }, "used": "$$used", "bound": "$$bound" };
    let none_behind = doc! { "count": "$$value.count", "used": 0, "bound": -1 };
    let vars = doc! {
        "used": { "$add": ["$$value.used", permits] },
        "bound": { "$min": ["$$value.bound", limit] },
    };
    doc! {
        "$reduce": {
            "input": "$$line",
            "initialValue": {
                "count": 0,
                "used": { "$sum": "$$kept.permits" },
                "bound": { "$cond": ["$$open", { "$min": limits }, -1] },
            },
            "in": { "$let": {
                "vars": vars,
                "in": { "$cond": [{ "$lte": ["$$used", "$$bound"] }, next, none_behind] },
            } },
        },
    }
}

/// When an admitted entry expires. The caller's own gets its whole ttl.
fn until(of: &str, is_asked_for: bool) -> Document {
    let field = |name: &str| format!("{of}.{name}");
    let life = doc! { "$subtract": [field("expiresAt"), field("heartbeatAt")] };
    let granted = doc! { "$max": [0_i64, { "$min": [field("ttlMs"), life] }] };
    let is_own = doc! { "$eq": [field("value"), literal("$$NOW")] };
    let term = if is_asked_for {
        doc! { "$cond": [is_own, field("ttlMs"), granted] }
    } else {
        granted
    };
    let from = doc! { "$max": ["$$NOW", field("heartbeatAt")] };
    doc! { "$add": [from, term, field("maxClockSkewMs")] }
}

/// The holder that an entry becomes.
fn new_holder(is_asked_for: bool) -> Document {
    let [permits, limit] = share("$$entry");
    doc! {
        "value": "$$entry.value",
        "id": "$$entry.id",
        "sentMicros": "$$entry.sentMicros",
        "owner": "$$entry.owner",
        "acquiredAt": "$$NOW",
        "expiresAt": until("$$entry", is_asked_for),
        "ttlMs": "$$entry.ttlMs",
        "maxClockSkewMs": "$$entry.maxClockSkewMs",
        "metadata": "$$entry.metadata",
        "permits": permits,
        "limit": limit,
        "writes": 1_i64,
    }
}

/// The fields that change where the first of those that fit asked for the whole lease.
fn exclusive(is_asked_for: bool) -> Document {
    doc! {
        "value": "$$first.value",
        "grant": {
            "value": "$$first.value",
            "id": "$$first.id",
            "sentMicros": "$$first.sentMicros",
            "owner": "$$first.owner",
            "acquiredAt": "$$NOW",
            "ttlMs": "$$first.ttlMs",
            "maxClockSkewMs": "$$first.maxClockSkewMs",
            "metadata": "$$first.metadata",
            "writes": one_more(),
        },
        "expiresAt": until("$$first", is_asked_for),
        "promoted": { "$concat": ["$$first.id", "@", { "$toString": "$$first.sentMicros" }] },
        "queue": "$$rest",
        "holders": [],
    }
}

/// The text of `admitted`.
fn told(is_asked_for: bool) -> Document {
    let others = doc! {
        "$filter": {
            "input": "$$admitted",
            "as": "entry",
            "cond": { "$ne": ["$$entry.value", literal("$$NOW")] },
        },
    };
    let input = if is_asked_for { Bson::from(others) } else { "$$admitted".into() };
    let gap = doc! { "$cond": [{ "$eq": ["$$value", ""] }, "", " "] };
    let sent = doc! { "$toString": "$$this.sentMicros" };
    let millis = doc! { "$toString": { "$toLong": until("$$this", is_asked_for) } };
    let one = doc! { "$concat": ["$$this.id", "@", sent, "@", millis] };
    let text = doc! { "$concat": ["$$value", gap, one] };
    doc! { "$reduce": { "input": input, "initialValue": "", "in": text } }
}

/// The text of `promoted` where a release admits nobody, somebody waits, and the lease ends earlier than before.
fn recheck() -> Document {
    let latest = doc! { "$max": "$$all.expiresAt" };
    let is_told = doc! {
        "$and": [
            { "$eq": ["$$count", 0] },
            { "$gt": [{ "$size": "$$rest" }, 0] },
            { "$lt": [&latest, "$expiresAt"] },
        ],
    };
    let millis = |date: Bson| doc! { "$toString": { "$toLong": date } };
    let head = doc! { "$arrayElemAt": ["$$rest.id", 0] };
    let text = doc! {
        "$concat": [head, "@!", millis("$$NOW".into()), "-", millis(latest.into())],
    };
    doc! { "$cond": [is_told, text, "$$REMOVE"] }
}

/// The fields that change when as many of `line` are admitted as fit. `refreshed`: the holders that stay. `nobody`: the
/// fields that change where no holder is left. `chosen` chooses from them all.
fn filled(
    line: Document,
    is_asked_for: bool,
    refreshed: impl Into<Bson>,
    nobody: Document,
    chosen: impl FnOnce(Document) -> Document,
) -> Document {
    let before = doc! { "$ifNull": ["$admitted", "$$REMOVE"] };
    let mut shared = doc! {
        "value": "mongo-lease/shared",
        "holders": "$$all",
        "expiresAt": { "$max": "$$all.expiresAt" },
        "queue": "$$rest",
        "admitted": { "$cond": [{ "$eq": ["$$told", ""] }, before, "$$told"] },
    };
    if !is_asked_for {
        shared.insert("promoted", recheck());
    }
    let is_any = doc! { "$gt": ["$$count", 0] };
    let [_, first_limit] = share("$$first");
    let is_exclusive = doc! { "$and": [&is_any, { "$eq": [first_limit, 1] }] };
    let changes = doc! {
        "$switch": {
            "branches": [
                { "case": is_exclusive, "then": exclusive(is_asked_for) },
                { "case": { "$gt": [{ "$size": "$$all" }, 0] }, "then": shared },
            ],
            "default": nobody,
        },
    };
    let new = doc! {
        "$map": { "input": "$$admitted", "as": "entry", "in": new_holder(is_asked_for) },
    };
    let vars = doc! {
        "all": { "$concatArrays": [refreshed.into(), new] },
        "told": told(is_asked_for),
        "first": { "$arrayElemAt": ["$$admitted", 0] },
    };
    let changes = doc! { "$let": { "vars": vars, "in": chosen(changes) } };
    let vars = doc! {
        "admitted": { "$cond": [is_any, { "$slice": ["$$line", "$$count"] }, []] },
        "rest": { "$slice": ["$$line", "$$count", 10_000] },
    };
    let changes = doc! { "$let": { "vars": vars, "in": changes } };
    let changes = with("count", with("fit", fit(), "$$fit.count"), changes);
    with("line", line, changes)
}

/// The date at which a lease without a holder has expired.
fn epoch() -> DateTime {
    DateTime::from_millis(0)
}
