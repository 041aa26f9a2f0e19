//! Changes to the slow acquire: who it is, its entry, and what it finds again.

use std::cell::RefCell;

use crate::bson::{Bson, Document, doc};

use super::{Change, damaged_is_sound, is_absent, is_date, is_unexpired, slow_acquire, uncounted};
use crate::commands::tests::agreement::edits::{
    argument_of, arguments, has, instead_of, is, replace, second_of, unfiltered, without_argument,
    without_where,
};

pub(in crate::commands::tests::agreement) const OF_ACQUIRES: &[Change] = &[
    slow_acquire("shortens a grant that it finds again", |it| second_of(it, "$max", "$expiresAt")),
    slow_acquire("shortens a share that it finds again", |it| {
        second_of(it, "$max", "$$each.expiresAt")
    }),
    slow_acquire("shortens the waiter_ttl of its entry", |it| {
        second_of(it, "$max", "$$old.expiresAt")
    }),
    slow_acquire("counts from $$NOW, although its heartbeat is newer", |it| {
        instead_of(it, &doc! { "$max": ["$$NOW", "$$old.heartbeatAt"] }, "$$NOW")
    }),
    slow_acquire("stores an older echo", |it| {
        argument_of(it, "$cond", 2, |all| {
            is(&all[0], doc! { "$gt": ["$$old.heartbeatAt", "$$NOW"] })
        })
    }),
    slow_acquire("reads an expiry of a foreign type as a time", |it| {
        instead_of(it, &is_date(), true)
    }),
    slow_acquire("finds a lease without an expiry held", |it| instead_of(it, &is_absent(), false)),
    slow_acquire("finds an expired lease held", |it| {
        instead_of(it, &doc! { "$lte": ["$expiresAt", "$$NOW"] }, false)
    }),
    slow_acquire("does not count its write", uncounted),
    slow_acquire("does not count its write to a share", |it| {
        let so_far = doc! { "$cond": [{ "$isNumber": "$$each.writes" }, "$$each.writes", 0] };
        instead_of(it, &doc! { "$add": [so_far.clone(), 1] }, so_far)
    }),
    slow_acquire("takes the shorter ttl", |it| second_of(it, "$max", "$$grant.ttlMs")),
    slow_acquire("takes the smaller clock skew", |it| {
        second_of(it, "$max", "$$grant.maxClockSkewMs")
    }),
    slow_acquire("takes the shorter ttl of a share", |it| second_of(it, "$max", "$$each.ttlMs")),
    slow_acquire("takes the smaller clock skew of a share", |it| {
        second_of(it, "$max", "$$each.maxClockSkewMs")
    }),
    slow_acquire("keeps the echo of a share", |it| {
        without_where(it, "sentMicros", |found| found.contains_key("writes") && found.len() == 5)
    }),
    slow_acquire("joins a full queue", |it| {
        let is_size = |all: &[Bson]| is(&all[0], doc! { "$size": "$$line" });
        replace(it, &|found| is_size(arguments(found, "$lt")?).then_some(true.into()))
    }),
    slow_acquire("is refused by a queue that it is in", |it| {
        without_argument(it, "$or", 0, |all| is(&all[0], doc! { "$gte": ["$$place", 0] }))
    }),
    slow_acquire("is refused by a full queue that it need not join", |it| {
        without_argument(it, "$or", 2, |all| {
            all.len() == 3 && is(&all[0], doc! { "$gte": ["$$place", 0] })
        })
    }),
    slow_acquire("joins a damaged document", damaged_is_sound),
    slow_acquire("writes where it is refused", |it| {
        argument_of(it, "$cond", 1, |all| all[2] == Bson::from(doc! {}) && has(&all[1], "$let"))
    }),
    slow_acquire("goes before the waiters", |it| {
        replace(it, &|found| is_place(arguments(found, "$cond")?).then(|| 0.into()))
    }),
    slow_acquire("loses its place", |it| argument_of(it, "$cond", 2, is_place)),
    slow_acquire("keeps its earlier entry", |it| unfiltered(it, "$$line")),
    slow_acquire("stays in the queue where it holds", |it| {
        argument_of(it, "$cond", 2, |all| all[1].as_str() == Some("$$others"))
    }),
    slow_acquire("inherits behind the waiters", |it| {
        argument_of(it, "$cond", 2, |all| all[1] == Bson::Int32(0) && has(&all[2], "$cond"))
    }),
    slow_acquire("does not inherit a lease", |it| {
        without_argument(it, "$or", 1, |all| {
            all.len() == 2 && has(&all[0], "$or") && has(&all[1], "$and")
        })
    }),
    slow_acquire("keeps the id of an inherited entry", |it| {
        replace(it, &|found| match arguments(found, "$cond")? {
            [_, old, new] if old.as_str() == Some("$$old.id") => {
                Some(doc! { "$ifNull": [old.clone(), new.clone()] }.into())
            }
            _ => None,
        })
    }),
    slow_acquire("takes a new id for its entry", |it| {
        argument_of(it, "$ifNull", 1, |all| all[0].as_str() == Some("$$old.id"))
    }),
    slow_acquire("is granted its own lease anew", |it| {
        argument_of(it, "$cond", 2, |all| all[0].as_str() == Some("$$mine"))
    }),
    slow_acquire("takes an exclusive lease for its share", |it| {
        let has_it = doc! { "$eq": ["$value", own_value(&it)] };
        let is_beside = doc! { "$ne": ["$$kept", []] };
        let or_has_it = doc! { "$or": [is_beside.clone(), has_it] };
        instead_of(it, &is_beside, or_has_it)
    }),
    slow_acquire("takes a lease for which others wait", |it| argument_of(it, "$and", 0, takes)),
    slow_acquire("takes a lease that is held", |it| argument_of(it, "$and", 1, takes)),
    slow_acquire("stays in the queue where it takes the lease", |it| {
        without_where(it, "queue", |found| {
            let [grant, promoted, holders] =
                ["grant", "promoted", "holders"].map(|key| found.contains_key(key));
            grant && !promoted && holders
        })
    }),
    slow_acquire("does not call the first waiter", |it| argument_of(it, "$cond", 2, calls_first)),
    slow_acquire("calls the first waiter of a held lease", |it| {
        argument_of(it, "$cond", 1, calls_first)
    }),
    slow_acquire("calls the last waiter", |it| {
        let id = |place: i32| doc! { "$arrayElemAt": ["$$waiting.id", place] };
        instead_of(it, &id(0), id(-1))
    }),
    slow_acquire("takes the grant of another for its own", |it| {
        replace(it, &|found| {
            let first = arguments(found, "$eq")?.first()?;
            (first.as_str() == Some("$grant.value")).then_some(true.into())
        })
    }),
    slow_acquire("does not see that it holds", |it| argument_of(it, "$or", 1, is_granted)),
    slow_acquire("does not see that it is admitted", |it| argument_of(it, "$or", 0, is_granted)),
    slow_acquire("loses its expired share", |it| {
        argument_of(it, "$or", 0, |all| is(&all[0], is_unexpired()))
    }),
    slow_acquire("keeps expired holders", |it| {
        replace(it, &|found| {
            let filter = found.get_document("$filter").ok()?;
            let is_kept = filter.get_str("input").ok() == Some("$$elements");
            let condition = filter.get_document("cond").ok()?;
            let is_caller = condition.contains_key("$eq");
            (is_kept && !is_caller).then(|| "$$elements".into())
        })
    }),
];

/// The arguments of the position in which a caller waits.
fn is_place(all: &[Bson]) -> bool {
    all[1].as_str() == Some("$$place") && has(&all[2], "$size")
}

/// The arguments of the condition that the caller holds after the write.
fn is_granted(all: &[Bson]) -> bool {
    let is_admitted = |found: &Bson| {
        let list = found.as_document().and_then(|found| arguments(found, "$in"));
        list.is_some_and(|list| list[1].as_str() == Some("$$admitted.value"))
    };
    all.len() == 2 && is_admitted(&all[1])
}

/// The arguments of the condition that a caller takes the exclusive lease.
fn takes(all: &[Bson]) -> bool {
    all.len() == 2 && all[0].as_str() == Some("$$free")
}

/// The arguments of the condition that the first waiter is called.
fn calls_first(all: &[Bson]) -> bool {
    all[0].as_str() == Some("$$free") && has(&all[1], "$concat")
}

/// The caller's value, quoted.
fn own_value(command: &Document) -> Bson {
    let found = RefCell::new(Bson::Null);
    replace(command.clone(), &|expression| {
        if let Some([path, own]) = arguments(expression, "$eq")
            && path.as_str() == Some("$$each.value")
        {
            found.replace(own.clone());
        }
        None
    });
    found.into_inner()
}
