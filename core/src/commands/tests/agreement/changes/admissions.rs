//! Changes to the admission in a slow acquire: who counts, how many fit, and what is written.

use crate::bson::{Bson, Document, doc};

use super::{
    Change, for_a_negative_time, for_the_whole_ttl, of_any_type, slow_acquire, with_dead_waiters,
    with_empty_holders, with_holders_twice, with_stale_list, with_the_holders_entry,
    with_the_newest_expiry,
};
use crate::commands::tests::agreement::edits::{
    argument_of, arguments, first_of, has, instead_of, is, replace, unfiltered, without_argument,
    without_beside, without_where,
};

pub(in crate::commands::tests::agreement) const OF_ADMISSIONS: &[Change] = &[
    slow_acquire("admits where nobody may be admitted", |it| {
        argument_of(it, "$cond", 1, |all| all[0].as_str() == Some("$$open"))
    }),
    slow_acquire("admits nobody beside holders", |it| {
        instead_of(it, &doc! { "$ne": ["$$kept", []] }, false)
    }),
    slow_acquire("admits one too many", |it| {
        let one_less = doc! { "$lte": [{ "$subtract": ["$$used", 1] }, "$$bound"] };
        instead_of(it, &doc! { "$lte": ["$$used", "$$bound"] }, one_less)
    }),
    slow_acquire("passes a waiter that does not fit", |it| {
        let blocks = doc! { "count": "$$value.count", "used": 0, "bound": -1 };
        instead_of(it, &blocks, "$$value")
    }),
    slow_acquire("does not count the holders' permits", |it| {
        instead_of(it, &doc! { "$sum": "$$kept.permits" }, 0)
    }),
    slow_acquire("does not look at the holders' limits", |it| {
        argument_of(it, "$concatArrays", 1, |all| all[0].as_str() == Some("$$kept.limit"))
    }),
    slow_acquire("looks at the waiter's limit alone", |it| {
        let both = doc! { "$min": ["$$value.bound", "$$this.limit"] };
        instead_of(it, &both, "$$this.limit")
    }),
    slow_acquire("does not look at the waiter's limit", |it| {
        let both = doc! { "$min": ["$$value.bound", "$$this.limit"] };
        instead_of(it, &both, "$$value.bound")
    }),
    slow_acquire("counts a waiter as one permit", |it| {
        instead_of(
            it,
            &doc! { "$add": ["$$value.used", "$$this.permits"] },
            doc! {
                "$add": ["$$value.used", 1],
            },
        )
    }),
    slow_acquire("expires with its newest holder", with_the_newest_expiry),
    slow_acquire("counts a holder without a permit", with_empty_holders),
    slow_acquire("reads holders of a lease that is held by one", with_stale_list),
    slow_acquire("tells of an empty list", |it| {
        instead_of(it, &doc! { "$gt": [{ "$size": "$$elements" }, 0] }, true)
    }),
    slow_acquire("reads corrupt holders", |it| {
        without_argument(it, "$and", 3, |all| all.len() == 4 && has(&all[3], "$allElementsTrue"))
    }),
    slow_acquire("admits a waiter for no permit", |it| valid_entry_without(it, 3)),
    slow_acquire("admits a waiter for more permits than its limit", |it| {
        valid_entry_without(it, 4)
    }),
    slow_acquire("admits a waiter under too large a limit", |it| valid_entry_without(it, 5)),
    slow_acquire("reads permits of any type", |it| of_any_type(it, "permits")),
    slow_acquire("reads a limit of any type", |it| of_any_type(it, "limit")),
    slow_acquire("reads an echo of any type", |it| of_any_type(it, "sentMicros")),
    slow_acquire("admits dead waiters", with_dead_waiters),
    slow_acquire("admits the entry of the holder", with_the_holders_entry),
    slow_acquire("admits waiters that hold already", with_holders_twice),
    slow_acquire("reads corrupt entries", |it| {
        without_argument(it, "$and", 0, |all| is_entry(&all[0]) && has(&all[1], "$or"))
    }),
    slow_acquire("makes an exclusive holder of a share", |it| {
        replace(it, &|found| is_exclusive(arguments(found, "$eq")?).then_some(true.into()))
    }),
    slow_acquire("makes a sharer of an exclusive holder", |it| {
        replace(it, &|found| is_exclusive(arguments(found, "$eq")?).then_some(false.into()))
    }),
    slow_acquire("does not tell the promoted waiter", |it| without_beside(it, "promoted", "grant")),
    slow_acquire("does not tell the admitted waiters", |it| {
        without_beside(it, "admitted", "holders")
    }),
    slow_acquire("tells of its own admission", |it| unfiltered(it, "$$admitted")),
    slow_acquire("forgets whom it told before", |it| {
        argument_of(it, "$cond", 2, |all| is(&all[0], doc! { "$eq": ["$$told", ""] }))
    }),
    slow_acquire("keeps holders under an exclusive one", |it| {
        without_beside(it, "holders", "grant")
    }),
    slow_acquire("keeps the promoted waiter in the queue", |it| {
        without_where(it, "queue", |found| {
            found.contains_key("grant") && found.contains_key("promoted")
        })
    }),
    slow_acquire("keeps the admitted waiters in the queue", |it| {
        without_beside(it, "queue", "admitted")
    }),
    slow_acquire("does not join", |it| {
        replace(it, &|found| {
            let others = found.keys().filter(|key| *key != "queue" && *key != "promoted");
            let is_queue = found.contains_key("queue") && others.count() == 0;
            is_queue.then(|| doc! {}.into())
        })
    }),
    slow_acquire("admits waiters for their whole ttl", for_the_whole_ttl),
    slow_acquire("admits for less than nothing", for_a_negative_time),
    slow_acquire("is granted no more than the waiter_ttl of its entry", |it| {
        argument_of(it, "$cond", 2, |all| {
            all[1].as_str().is_some_and(|path| path.ends_with(".ttlMs")) && has(&all[2], "$max")
        })
    }),
    slow_acquire("counts an admission from $$NOW", |it| first_of(it, "$max", "$$each.heartbeatAt")),
];

/// The arguments of the condition that the first waiter asked for the exclusive lease.
fn is_exclusive(all: &[Bson]) -> bool {
    all[0].as_str() == Some("$$first.limit")
}

/// The condition that an element is an entry.
fn is_entry(found: &Bson) -> bool {
    let all = found.as_document().and_then(|found| arguments(found, "$and"));
    all.is_some_and(|all| all.len() == 6)
}

/// Entries need not fit one of the conditions on them.
fn valid_entry_without(command: Document, place: usize) -> Document {
    without_argument(command, "$and", place, |all| all.len() == 6)
}
