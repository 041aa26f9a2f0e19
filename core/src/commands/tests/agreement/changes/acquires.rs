//! Changes to the slow acquire: who it is, its entry, and what it finds again.

use std::cell::RefCell;

use crate::bson::{Bson, Document, doc};

use super::{Change, change, damaged_is_sound, is_absent, is_date, is_unexpired, uncounted};
use crate::commands::tests::agreement::edits::{
    argument_of, arguments, has, instead_of, is, replace, second_of, without_argument,
};

pub(in crate::commands::tests::agreement) const OF_ACQUIRES: &[Change] = &[
    change("SlowAcquire", "shortens a grant that it finds again", |it| {
        second_of(it, "$max", "$expiresAt")
    }),
    change("SlowAcquire", "shortens a share that it finds again", |it| {
        second_of(it, "$max", "$$each.expiresAt")
    }),
    change("SlowAcquire", "shortens the waiter_ttl of its entry", |it| {
        second_of(it, "$max", "$$old.expiresAt")
    }),
    change("SlowAcquire", "counts from $$NOW, although its heartbeat is newer", |it| {
        instead_of(it, &doc! { "$max": ["$$NOW", "$$old.heartbeatAt"] }, "$$NOW")
    }),
    change("SlowAcquire", "stores an older echo", |it| {
        argument_of(it, "$cond", 2, |all| {
            is(&all[0], doc! { "$gt": ["$$old.heartbeatAt", "$$NOW"] })
        })
    }),
    change("SlowAcquire", "reads an expiry of a foreign type as a time", |it| {
        instead_of(it, &is_date(), true)
    }),
    change("SlowAcquire", "finds a lease without an expiry held", |it| {
        instead_of(it, &is_absent(), false)
    }),
    change("SlowAcquire", "finds an expired lease held", |it| {
        instead_of(it, &doc! { "$lte": ["$expiresAt", "$$NOW"] }, false)
    }),
    change("SlowAcquire", "does not count its write", uncounted),
    change("SlowAcquire", "does not count its write to a share", |it| {
        let so_far = doc! { "$cond": [{ "$isNumber": "$$each.writes" }, "$$each.writes", 0] };
        instead_of(it, &doc! { "$add": [so_far.clone(), 1] }, so_far)
    }),
    change("SlowAcquire", "takes the shorter ttl", |it| second_of(it, "$max", "$$grant.ttlMs")),
    change("SlowAcquire", "takes the smaller clock skew", |it| {
        second_of(it, "$max", "$$grant.maxClockSkewMs")
    }),
    change("SlowAcquire", "takes the shorter ttl of a share", |it| {
        second_of(it, "$max", "$$each.ttlMs")
    }),
    change("SlowAcquire", "takes the smaller clock skew of a share", |it| {
        second_of(it, "$max", "$$each.maxClockSkewMs")
    }),
    change("SlowAcquire", "keeps the echo of a share", |it| {
        replace(it, &|found| {
            let mut kept = found.clone();
            let is_share = found.contains_key("writes") && found.len() == 5;
            kept.remove("sentMicros").filter(|_| is_share).map(|_| kept.into())
        })
    }),
    change("SlowAcquire", "joins a full queue", |it| {
        let is_size = |all: &[Bson]| is(&all[0], doc! { "$size": "$$line" });
        replace(it, &|found| is_size(arguments(found, "$lt")?).then_some(true.into()))
    }),
    change("SlowAcquire", "is refused by a queue that it is in", |it| {
        without_argument(it, "$or", 0, |all| is(&all[0], doc! { "$gte": ["$$place", 0] }))
    }),
    change("SlowAcquire", "is refused by a full queue that it need not join", |it| {
        without_argument(it, "$or", 2, |all| {
            all.len() == 3 && is(&all[0], doc! { "$gte": ["$$place", 0] })
        })
    }),
    change("SlowAcquire", "joins a damaged document", damaged_is_sound),
    change("SlowAcquire", "writes where it is refused", |it| {
        argument_of(it, "$cond", 1, |all| all[2] == Bson::from(doc! {}) && has(&all[1], "$cond"))
    }),
    change("SlowAcquire", "goes before the waiters", |it| {
        replace(it, &|found| is_place(arguments(found, "$cond")?).then(|| 0.into()))
    }),
    change("SlowAcquire", "loses its place", |it| argument_of(it, "$cond", 2, is_place)),
    change("SlowAcquire", "keeps its earlier entry", |it| {
        replace(it, &|found| {
            let filter = found.get_document("$filter").ok()?;
            (filter.get_str("input").ok() == Some("$$line")).then(|| "$$line".into())
        })
    }),
    change("SlowAcquire", "stays in the queue where it holds", |it| {
        argument_of(it, "$cond", 2, |all| all[1].as_str() == Some("$$others"))
    }),
    change("SlowAcquire", "inherits behind the waiters", |it| {
        argument_of(it, "$cond", 2, |all| all[1] == Bson::Int32(0) && has(&all[2], "$cond"))
    }),
    change("SlowAcquire", "does not inherit a lease", |it| {
        without_argument(it, "$or", 2, |all| all.len() == 3 && has(&all[0], "$or"))
    }),
    change("SlowAcquire", "keeps the id of an inherited entry", |it| {
        replace(it, &|found| match arguments(found, "$cond")? {
            [_, old, new] if old.as_str() == Some("$$old.id") => {
                Some(doc! { "$ifNull": [old.clone(), new.clone()] }.into())
            }
            _ => None,
        })
    }),
    change("SlowAcquire", "takes a new id for its entry", |it| {
        argument_of(it, "$ifNull", 1, |all| all[0].as_str() == Some("$$old.id"))
    }),
    change("SlowAcquire", "finds its own lease free", |it| {
        instead_of(it, &doc! { "$not": "$$mine" }, true)
    }),
    change("SlowAcquire", "is granted its own lease anew", |it| {
        argument_of(it, "$cond", 2, |all| all[0].as_str() == Some("$$mine"))
    }),
    change("SlowAcquire", "takes an exclusive lease for its share", |it| {
        let value = own_value(&it);
        replace(it, &|found| {
            let is_none = found.get_bool("mine").ok() == Some(false);
            let of_value = doc! { "mine": { "$eq": ["$value", value.clone()] } };
            is_none.then(|| of_value.into())
        })
    }),
    change("SlowAcquire", "takes the grant of another for its own", |it| {
        replace(it, &|found| {
            let first = arguments(found, "$eq")?.first()?;
            (first.as_str() == Some("$grant.value")).then_some(true.into())
        })
    }),
    change("SlowAcquire", "does not see that it holds", |it| argument_of(it, "$or", 1, is_granted)),
    change("SlowAcquire", "does not see that it is admitted", |it| {
        argument_of(it, "$or", 0, is_granted)
    }),
    change("SlowAcquire", "loses its expired share", |it| {
        argument_of(it, "$or", 0, |all| is(&all[0], is_unexpired()))
    }),
    change("SlowAcquire", "keeps expired holders", |it| {
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
