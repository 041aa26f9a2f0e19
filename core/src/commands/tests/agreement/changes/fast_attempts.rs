//! Changes to the fast attempts.

use crate::bson::{Bson, Document, doc};

use super::{
    Change, change, has_no_queue, is_absent, is_date, is_unexpired, uncounted, with_empty_holders,
    with_stale_list, with_the_newest_expiry,
};
use crate::commands::tests::agreement::edits::{
    argument_of, arguments, has, instead_of, part, replace,
};

pub(in crate::commands::tests::agreement) const OF_FAST_ATTEMPTS: &[Change] = &[
    change("FastAcquire", "is granted a lease that has a queue", |it| {
        instead_of(it, &has_no_queue(), true)
    }),
    change("FastAcquire", "is granted a lease that is held", |it| {
        instead_of(it, &doc! { "$lte": ["$expiresAt", "$$NOW"] }, true)
    }),
    change("FastAcquire", "is granted a damaged lease", |it| instead_of(it, &is_date(), true)),
    change("FastAcquire", "finds a lease without an expiry held", |it| {
        instead_of(it, &is_absent(), false)
    }),
    change("FastAcquire", "does not count its write", uncounted),
    change("FastAcquire", "looks the name up before it inserts", |mut it| {
        let inserted = "update/0/$replaceWith/$mergeObjects/1";
        if it.get_document("query").is_ok_and(|query| query.get_document("name").is_ok()) {
            let name = part(&mut it, &format!("{inserted}/name")).get("$literal").cloned();
            it.insert("query", doc! { "name": name });
        }
        it
    }),
    change("FastAcquireMany", "grants until $$NOW", |it| {
        replace(it, &|found| {
            (arguments(found, "$add")?.first()?.as_str() == Some("$$NOW")).then(|| "$$NOW".into())
        })
    }),
    change("FastAcquireMany", "does not count its write", uncounted),
    change("FastAcquireMany", "is granted a lease that has a queue", |it| {
        instead_of(it, &has_no_queue(), true)
    }),
    change("FastAdmit", "does not look for its own grant", |it| {
        replace(it, &|found| {
            let inner = found.get_document("$not").ok()?;
            let is_own = arguments(inner, "$in")?.get(1)?.as_str() == Some("$$kept.value");
            is_own.then_some(Bson::Boolean(true))
        })
    }),
    change("FastAdmit", "goes before the queue", |it| instead_of(it, &has_no_queue(), true)),
    change("FastAdmit", "is refused beside holders", |it| {
        instead_of(it, &doc! { "$gt": [{ "$size": "$$kept" }, 0] }, false)
    }),
    change("FastAdmit", "is admitted beside an exclusive holder", |it| {
        instead_of(it, &doc! { "$gt": [{ "$size": "$$kept" }, 0] }, true)
    }),
    change("FastAdmit", "finds a lease without an expiry held", |it| {
        instead_of(it, &is_absent(), false)
    }),
    change("FastAdmit", "finds an expired lease held", |it| {
        instead_of(it, &doc! { "$lte": ["$expiresAt", "$$NOW"] }, false)
    }),
    change("FastAdmit", "reads an expiry of a foreign type as a time", |it| {
        instead_of(it, &is_date(), true)
    }),
    change("FastAdmit", "is admitted where it does not fit", |it| {
        replace(it, &|found| {
            let [in_use, _] = arguments(found, "$lte")? else {
                return None;
            };
            has(in_use, "$add").then_some(true.into())
        })
    }),
    change("FastAdmit", "looks at its own limit alone", |it| argument_of_limits(it, 1)),
    change("FastAdmit", "looks at the others' limits alone", |it| argument_of_limits(it, 0)),
    change("FastAdmit", "does not count the permits in use", |it| {
        instead_of(it, &doc! { "$sum": "$$kept.permits" }, 0)
    }),
    change("FastAdmit", "counts expired holders", |it| instead_of(it, &is_unexpired(), true)),
    change("FastAdmit", "counts a holder without a permit", with_empty_holders),
    change("FastAdmit", "reads holders of a lease that is held by one", with_stale_list),
    change("FastAdmit", "expires with its newest holder", with_the_newest_expiry),
];

fn argument_of_limits(command: Document, place: usize) -> Document {
    argument_of(command, "$concatArrays", place, |all| all[0].as_str() == Some("$$kept.limit"))
}
