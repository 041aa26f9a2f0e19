//! Changes to the end of a grant, which admits waiters.

use crate::bson::{Bson, DateTime, Document, doc};

use super::{
    Change, FILTER, damaged_is_sound, end, for_a_negative_time, for_the_whole_ttl, is_absent,
    is_unexpired, of_any_type, uncounted, with_dead_waiters, with_empty_holders,
    with_holders_twice, with_stale_list, with_the_holders_entry, with_the_newest_expiry,
};
use crate::commands::tests::agreement::edits::{
    argument_of, arguments, first_of, has, in_each_form, instead_of, is, replace, without,
    without_argument, without_beside, without_where,
};

pub(in crate::commands::tests::agreement) const OF_ENDS: &[Change] = &[
    end("ends a damaged lease", damaged_is_sound),
    end("ends a lease that a delete would end", |it| without(it, FILTER, "$and")),
    end("sees no holders beside the target", |it| {
        replace(it, &|found| {
            let is_second = found.get_document("holders.1").is_ok();
            is_second.then(|| doc! { "name": 0 }.into())
        })
    }),
    end("sees no queue beside the target", |it| {
        replace(it, &|found| {
            let is_queue = found.len() == 1 && found.contains_key("queue.0");
            is_queue.then(|| doc! { "name": 0 }.into())
        })
    }),
    end("matches any grant of its value", |it| {
        in_each_form(it, FILTER, |form| drop(form.remove("grant.id")))
    }),
    end("matches any share of its value", |it| {
        in_each_form(it, FILTER, |form| {
            let list = form.get_document_mut("holders").ok();
            if let Some(element) = list.and_then(|it| it.get_document_mut("$elemMatch").ok()) {
                element.remove("id");
            }
        })
    }),
    end("matches holders of a lease that is held by one", |it| {
        in_each_form(it, FILTER, |form| {
            if form.contains_key("holders") {
                form.remove("value");
            }
        })
    }),
    end("matches shares in a document without an expiry", |it| {
        in_each_form(it, FILTER, |form| drop(form.remove("expiresAt")))
    }),
    end("matches a queue that is no list", |it| {
        in_each_form(it, FILTER, |form| drop(form.remove("queue")))
    }),
    end("ends any grant of its value", any_id),
    end("admits the entry of the holder", with_the_holders_entry),
    end("ends the lease of another when it leaves the queue", |it| {
        replace(it, &|found| {
            let [first, _] = arguments(found, "$eq")? else {
                return None;
            };
            (first.as_str() == Some("$value") && has(&arguments(found, "$eq")?[1], "$literal"))
                .then_some(true.into())
        })
    }),
    end("does not admit when it holds", |it| without_argument(it, "$or", 1, is_open)),
    end("does not admit in shared use", |it| without_argument(it, "$or", 2, is_open)),
    end("does not admit to a free lease", |it| without_argument(it, "$or", 0, is_open)),
    end("finds a lease without an expiry held", |it| instead_of(it, &is_absent(), false)),
    end("finds an expired lease held", |it| {
        instead_of(it, &doc! { "$lte": ["$expiresAt", "$$NOW"] }, false)
    }),
    end("takes expired holders for holders", |it| {
        argument_of(it, "$and", 0, |all| all.len() == 2 && all[0].as_str() == Some("$$shared"))
    }),
    end("admits nobody when the last expired holder ends", |it| {
        without_argument(it, "$or", 1, |all| is(&all[0], is_unexpired()))
    }),
    end("admits nobody beside others", |it| {
        without_argument(it, "$or", 0, |all| is(&all[0], is_unexpired()))
    }),
    end("keeps expired holders", |it| without_argument(it, "$and", 0, is_staying)),
    end("keeps itself", |it| without_argument(it, "$and", 1, is_staying)),
    end("admits its own entry", |it| {
        without_argument(it, "$and", 2, |all| all.len() == 3 && has(&all[2], "$not"))
    }),
    end("admits where nobody may be admitted", |it| argument_of(it, "$cond", 1, is_choice)),
    end("admits nobody", |it| argument_of(it, "$cond", 2, is_choice)),
    end("stays in the queue where it admits nobody", |it| {
        without_where(it, "queue", |found| found.len() == 2 && found.contains_key("holders"))
    }),
    end("stays in a corrupt list", |it| {
        without_where(it, "holders", |found| found.len() == 2 && found.contains_key("queue"))
    }),
    end("frees the lease now", |it| {
        replace(it, &|found| {
            let mut now = found.clone();
            now.insert("expiresAt", "$$NOW");
            is_freed(found).then(|| now.into())
        })
    }),
    end("leaves its value in a free lease", |it| without_from_freed(it, "value")),
    end("leaves holders in a free lease", |it| without_from_freed(it, "holders")),
    end("leaves dead entries in a free lease", |it| without_from_freed(it, "queue")),
    end("admits one too many", |it| {
        let one_less = doc! { "$lte": [{ "$subtract": ["$$used", 1] }, "$$bound"] };
        instead_of(it, &doc! { "$lte": ["$$used", "$$bound"] }, one_less)
    }),
    end("does not look at the holders' limits", |it| {
        argument_of(it, "$concatArrays", 1, |all| all[0].as_str() == Some("$$kept.limit"))
    }),
    end("reads holders of a lease that is held by one", with_stale_list),
    end("counts a holder without a permit", with_empty_holders),
    end("reads permits of any type", |it| of_any_type(it, "permits")),
    end("admits dead waiters", with_dead_waiters),
    end("admits waiters that hold already", with_holders_twice),
    end("admits waiters for their whole ttl", for_the_whole_ttl),
    end("admits for less than nothing", for_a_negative_time),
    end("counts an admission from $$NOW", |it| first_of(it, "$max", "$$each.heartbeatAt")),
    end("does not count its write", uncounted),
    end("expires with its newest holder", with_the_newest_expiry),
    end("does not tell the promoted waiter", |it| without_beside(it, "promoted", "grant")),
    end("does not tell the admitted waiters", |it| without_beside(it, "admitted", "holders")),
    end("keeps holders under an exclusive one", |it| without_beside(it, "holders", "grant")),
    end("does not tell of an earlier end", |it| without_beside(it, "promoted", "admitted")),
    end("tells a waiter beside those that it admits", |it| {
        without_argument(it, "$and", 0, is_told)
    }),
];

/// The arguments of the condition that anybody may be admitted.
fn is_open(all: &[Bson]) -> bool {
    all.len() == 3 && has(&all[0], "$or") && has(&all[1], "$and")
}

/// The arguments of the condition that a holder stays.
fn is_staying(all: &[Bson]) -> bool {
    all.len() == 2 && is(&all[0], is_unexpired()) && has(&all[1], "$not")
}

/// The arguments of the choice between an admission and none.
fn is_choice(all: &[Bson]) -> bool {
    all[0].as_str() == Some("$$open") && has(&all[1], "$let")
}

/// The arguments of the condition that the first waiter is told of an earlier end.
fn is_told(all: &[Bson]) -> bool {
    all.len() == 3 && is(&all[0], doc! { "$eq": ["$$admitted", []] })
}

/// The fields of a lease that ends.
fn is_freed(found: &Document) -> bool {
    found.get_datetime("expiresAt").ok() == Some(&DateTime::from_millis(0))
}

fn without_from_freed(command: Document, field: &str) -> Document {
    without_where(command, field, is_freed)
}

/// Every id of a grant fits the pipeline.
fn any_id(command: Document) -> Document {
    replace(command, &|found| {
        let compared = ["$eq", "$gte", "$lt", "$ne"].iter().find_map(|it| arguments(found, it))?;
        let [id, meant] = compared else {
            return None;
        };
        let is_id = ["$$each.id", "$grant.id"].contains(&id.as_str()?);
        (is_id && has(meant, "$literal")).then_some(Bson::Boolean(true))
    })
}
