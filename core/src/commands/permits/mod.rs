//! Commands for a lease in shared use, and the expressions on its holders.
//!
//! An element of `holders` that lacks a field, or has one of a foreign type, makes the list corrupt: nobody is admitted
//! beside it. The list counts only while the document's value is that of shared use.

mod admit;
mod admit_reply;
mod find;
mod fitting;
mod release;
mod renew;

pub use admit::Admit;
#[cfg(any(test, feature = "memory"))]
pub use admit::FastAdmit;
pub use find::{FindHolders, SeenHolder, SharedSnapshot};
pub use release::{DeleteLastHolder, ReleaseAndAdmit, ReleasePermit, ReleaseScope};
pub use renew::RenewPermits;

use crate::bson::{Bson, Document, doc};
use crate::format::{self, entry, holder};
use crate::rules::permits::LIMIT_MAX;

use super::{is_date, literal, path, queue};

/// The variables of the pipelines: the elements of the list, and the holders that stay.
const ELEMENTS: &str = "$$elements";
const KEPT: &str = "$$kept";
/// The variable that stands for one holder or one entry.
const EACH: &str = "$$entry";

fn of_each(field: &str) -> String {
    format!("{EACH}.{field}")
}

fn of_kept(field: &str) -> String {
    format!("{KEPT}.{field}")
}

/// `in` with this variable.
fn with(name: &str, value: impl Into<Bson>, inner: impl Into<Bson>) -> Document {
    doc! { "$let": { "vars": { name: value.into() }, "in": inner.into() } }
}

/// `inner` with [`ELEMENTS`].
fn with_elements(inner: Document) -> Document {
    with("elements", elements(), inner)
}

/// The list as an array, whatever the field holds.
fn elements() -> Document {
    let holders = path(format::HOLDERS);
    doc! { "$cond": [{ "$isArray": [&holders] }, &holders, []] }
}

/// A condition on [`ELEMENTS`]: the lease is in shared use, and each element is a holder with a permit at least.
fn is_shared() -> Document {
    const FIELDS: [(&str, &str); 7] = [
        (holder::VALUE, "string"),
        (holder::ID, "string"),
        (holder::EXPIRES_AT, "date"),
        (holder::TTL_MS, "long"),
        (holder::MAX_CLOCK_SKEW_MS, "long"),
        (holder::PERMITS, "long"),
        (holder::LIMIT, "long"),
    ];
    let found = FIELDS.map(|(field, _)| Bson::from(doc! { "$type": of_each(field) }));
    let wanted = FIELDS.map(|(_, wanted)| Bson::from(wanted));
    let is_holder = doc! {
        "$and": [
            { "$eq": [found.to_vec(), wanted.to_vec()] },
            { "$gte": [of_each(holder::PERMITS), 1] },
        ],
    };
    let each = doc! { "$map": { "input": ELEMENTS, "as": "entry", "in": is_holder } };
    doc! {
        "$and": [
            { "$eq": [path(format::VALUE), format::SHARED_VALUE] },
            is_date(format::EXPIRES_AT),
            { "$gt": [{ "$size": ELEMENTS }, 0] },
            { "$allElementsTrue": [each] },
        ],
    }
}

/// A condition: the lease has no expiry, or one in the past.
fn has_no_holder() -> Document {
    let absent = doc! { "$in": [{ "$type": path(format::EXPIRES_AT) }, ["missing", "null"]] };
    let expired = doc! { "$lte": [path(format::EXPIRES_AT), "$$NOW"] };
    doc! { "$or": [absent, { "$and": [is_date(format::EXPIRES_AT), expired] }] }
}

/// A condition on one holder: it has not expired.
fn is_unexpired() -> Document {
    doc! { "$gt": [of_each(holder::EXPIRES_AT), "$$NOW"] }
}

/// The permits and the limit of one entry. An entry without them is of a waiter for an exclusive lease.
fn asked(of: &str) -> [Document; 2] {
    [entry::PERMITS, entry::LIMIT].map(|field| doc! { "$ifNull": [format!("{of}.{field}"), 1_i64] })
}

/// A condition on one entry: it has a share that a call may ask for, or none.
fn has_valid_share() -> Document {
    let types = [entry::PERMITS, entry::LIMIT].map(|field| doc! { "$type": of_each(field) });
    let [permits, limit] = asked(EACH);
    doc! {
        "$and": [
            { "$in": [types.to_vec(), [["long", "long"], ["missing", "missing"]]] },
            { "$gte": [&permits, 1] },
            { "$lte": [permits, &limit] },
            { "$lte": [limit, i64::from(LIMIT_MAX)] },
        ],
    }
}

/// The entries that count, in order: the live ones whose waiters hold nothing, and `own` ones.
fn line(own: Option<Document>) -> Document {
    let holds = doc! { "$in": [of_each(entry::VALUE), of_kept(holder::VALUE)] };
    let waits = doc! { "$and": [queue::is_live(), { "$not": holds }] };
    let counts = match own {
        Some(own) => doc! { "$or": [own, waits] },
        None => waits,
    };
    queue::filter(queue::entries(), doc! { "$and": [queue::is_entry(), has_valid_share(), counts] })
}

/// A condition on one holder or entry: it has this value.
fn is_of(value: &str) -> Document {
    doc! { "$eq": [of_each(holder::VALUE), literal(value)] }
}
