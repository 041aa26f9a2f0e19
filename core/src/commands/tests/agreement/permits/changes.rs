//! Deliberate changes to the commands for permits. The comparison has to find each.

use crate::bson::{Bson, DateTime, Document, doc};

use crate::commands::tests::agreement::changes::{Change, change};
use crate::commands::tests::agreement::edits::{
    arguments, first_of, instead_of, part, replace, second_of, without,
};

const FILTER: &str = "updates/0/q";
const QUEUE_IS_EMPTY: &str = "queue.0";

/// Changes to the commands of callers that acquire.
pub(super) const OF_ADMISSIONS: [Change; 17] = [
    change("Admit", "admits one too many", |it| {
        let one_less = doc! { "$lte": [{ "$subtract": ["$$used", 1] }, "$$bound"] };
        instead_of(it, &doc! { "$lte": ["$$used", "$$bound"] }, one_less)
    }),
    change("Admit", "passes a waiter that does not fit", |it| {
        let blocks = doc! { "count": "$$value.count", "used": 0, "bound": -1 };
        instead_of(it, &blocks, "$$value")
    }),
    change("Admit", "expires with its newest holder", |it| {
        let newest = doc! { "$arrayElemAt": ["$$all.expiresAt", -1] };
        instead_of(it, &doc! { "$max": "$$all.expiresAt" }, newest)
    }),
    change("Admit", "shortens a grant that it finds again", |it| {
        second_of(it, "$max", "$$entry.expiresAt")
    }),
    change("Admit", "does not count its write", uncounted),
    change("Admit", "counts a holder without a permit", |it| {
        instead_of(it, &doc! { "$gte": ["$$entry.permits", 1] }, true)
    }),
    change("Admit", "joins a full queue", |it| {
        replace(it, &|found| {
            let is_size =
                arguments(found, "$lt")?.first() == Some(&doc! { "$size": "$$callers" }.into());
            is_size.then_some(Bson::Boolean(true))
        })
    }),
    change("Admit", "does not tell the admitted waiters", without_admitted),
    change("Admit", "keeps holders under an exclusive one", with_stale_holders),
    change("Admit", "admits waiters for their whole ttl", for_the_whole_ttl),
    change("Admit", "counts an admission from $$NOW", |it| {
        first_of(it, "$max", "$$entry.heartbeatAt")
    }),
    change("Admit", "reads an expiry of a foreign type as a time", |it| {
        instead_of(it, &doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] }, true)
    }),
    change("Admit", "admits a waiter for more permits than its limit", |it| {
        let [permits, limit] = ["permits", "limit"]
            .map(|field| doc! { "$ifNull": [format!("$$entry.{field}"), 1_i64] });
        instead_of(it, &doc! { "$lte": [permits, limit] }, true)
    }),
    change("FastAdmit", "does not look for its own grant", |it| {
        replace(it, &|found| {
            let inner = found.get_document("$not").ok()?;
            let is_own = arguments(inner, "$in")?.get(1)?.as_str() == Some("$$kept.value");
            is_own.then_some(Bson::Boolean(true))
        })
    }),
    change("FastAdmit", "goes before the queue", |it| {
        instead_of(it, &doc! { "$in": [{ "$ifNull": ["$queue", []] }, [[]]] }, true)
    }),
    change("FastAdmit", "looks at its own limit alone", |it| {
        replace(it, &|found| {
            let limits = arguments(found, "$concatArrays")?;
            (limits.first()?.as_str() == Some("$$kept.limit")).then(|| limits[1].clone())
        })
    }),
    change("FastAdmit", "counts expired holders", |it| {
        instead_of(it, &doc! { "$gt": ["$$entry.expiresAt", "$$NOW"] }, true)
    }),
];

/// Changes to the commands of holders, and to the hand-off of an exclusive one.
pub(super) const OF_HOLDERS: [Change; 21] = [
    change("RenewHolders", "shortens a grant", |it| second_of(it, "$max", "$$entry.expiresAt")),
    change("RenewHolders", "is content with one grant of two", |mut it| {
        let ids = part(&mut it, FILTER).get_document_mut("holders.id").expect("a filter");
        if let Some(all) = ids.remove("$all") {
            ids.insert("$in", all);
        }
        it
    }),
    change("RenewHolders", "repairs a corrupt holder", |it| without(it, FILTER, "holders")),
    change("RenewHolders", "renews what is not in shared use", |it| without(it, FILTER, "value")),
    change("RenewHolders", "keeps the expiry of the document", |mut it| {
        part(&mut it, "updates/0/u/1/$set").clear();
        part(&mut it, "updates/0/u/1/$set").insert("expiresAt", "$expiresAt");
        it
    }),
    change("RenewHolders", "prolongs for the stored ttl", |it| {
        replace(it, &|found| {
            let is_until = arguments(found, "$add")?.first()?.as_str() == Some("$$NOW");
            // Null, and so not prolonged, where one of them is of a foreign type.
            let time = |field: &str| {
                let path = format!("$$entry.{field}");
                let is_time = doc! { "$eq": [{ "$type": &path }, "long"] };
                doc! { "$cond": [is_time, { "$min": [path, 1_000_000_000_000_i64] }, Bson::Null] }
            };
            let stored = doc! { "$add": ["$$NOW", time("ttlMs"), time("maxClockSkewMs")] };
            is_until.then(|| stored.into())
        })
    }),
    change("ReleaseAndAdmit", "admits nobody when it leaves", |it| {
        let counts = "$$shared";
        replace(it, &|found| {
            let [shared, _] = arguments(found, "$and")? else {
                return None;
            };
            (shared.as_str() == Some(counts)).then_some(Bson::Boolean(false))
        })
    }),
    change("ReleaseAndAdmit", "releases any grant of its value", |it| {
        replace(it, &|found| {
            let is_id = |bson: &Bson| bson.as_str() == Some("$$entry.id");
            let compared = ["$eq", "$gte", "$lt", "$ne"].iter().find_map(|it| arguments(found, it));
            compared?.first().is_some_and(is_id).then_some(Bson::Boolean(true))
        })
    }),
    change("ReleaseAndAdmit", "expires now where nobody is left", |it| {
        replace(it, &|found| {
            let is_ended = found.get_datetime("expiresAt").ok() == Some(&DateTime::from_millis(0));
            let mut now = found.clone();
            now.insert("expiresAt", "$$NOW");
            is_ended.then(|| now.into())
        })
    }),
    change("ReleaseAndAdmit", "does not tell the admitted waiters", without_admitted),
    change("ReleaseAndAdmit", "does not tell of an earlier end", |it| {
        replace(it, &|found| {
            let mut silent = found.clone();
            silent.contains_key("admitted").then_some(())?;
            silent.remove("promoted").map(|_| silent.into())
        })
    }),
    change("ReleaseAndAdmit", "keeps holders under an exclusive one", with_stale_holders),
    change("ReleaseAndAdmit", "admits waiters for their whole ttl", for_the_whole_ttl),
    change("ReleaseAndAdmit", "repairs an expiry of a foreign type", |it| {
        without(it, FILTER, "expiresAt")
    }),
    change("ReleasePermit", "keeps the expiry of the document", |it| {
        without(it, "updates/0/u/1/$set", "expiresAt")
    }),
    change("ReleasePermit", "releases where somebody waits", |it| {
        without(it, FILTER, QUEUE_IS_EMPTY)
    }),
    change("ReleasePermit", "repairs a corrupt holder", |it| {
        without(it, &format!("{FILTER}/holders"), "$not")
    }),
    change("DeleteLastHolder", "deletes other holders", |it| without(it, "deletes/0/q", "holders")),
    change("DeleteLastHolder", "deletes a damaged document", |it| {
        without(it, "deletes/0/q", "$expr")
    }),
    change("DeleteLastHolder", "deletes the queue", |it| {
        without(it, "deletes/0/q", QUEUE_IS_EMPTY)
    }),
    change("HandOff", "makes an exclusive holder of a waiter for a share", |it| {
        instead_of(it, &doc! { "$ne": [{ "$ifNull": ["$queue.limit", []] }, []] }, false)
    }),
];

fn without_admitted(command: Document) -> Document {
    replace(command, &|found| {
        let mut silent = found.clone();
        // A variable has the same name.
        silent.contains_key("holders").then_some(())?;
        silent.remove("admitted").map(|_| silent.into())
    })
}

fn with_stale_holders(command: Document) -> Document {
    replace(command, &|found| {
        let mut stale = found.clone();
        stale.contains_key("grant").then_some(())?;
        stale.remove("holders").map(|_| stale.into())
    })
}

fn uncounted(command: Document) -> Document {
    let so_far = doc! { "$cond": [{ "$isNumber": "$$entry.writes" }, "$$entry.writes", 0] };
    instead_of(command, &doc! { "$add": [so_far, 1] }, "$$entry.writes")
}

fn for_the_whole_ttl(command: Document) -> Document {
    replace(command, &|found| {
        let ttl = arguments(found, "$min")?.first()?;
        ttl.as_str().is_some_and(|path| path.ends_with(".ttlMs")).then(|| ttl.clone())
    })
}
