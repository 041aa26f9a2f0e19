//! Renew in shared use: prolongs the grants of one process.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document, doc};

use super::{EACH, of_each};
use crate::commands::failure::Cause;
use crate::commands::renew::GrantKey;
use crate::commands::reply::{Renewed, decode_update};
use crate::commands::{
    Command, echo, is_date, literal, majority, one_more, path, queue, simple_collation,
};
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::schema::{self, holder};

/// The most ids of a statement: for each holder of each of its leases, the server walks over all of them.
const IDS_MAX: usize = 64;

/// Renews the grants that are still held. The effect on each lease is `spec::permits::renew_permits`.
///
/// The reply counts documents. So leases of which the process has one grant share statements, and a lease of which it
/// has several has a statement of its own, which matches only if all of them are there.
#[derive(Clone, Debug)]
pub(crate) struct RenewPermits {
    pub(crate) grants: Vec<GrantKey>,
}

impl Command for RenewPermits {
    type Reply = Renewed;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for grant in &self.grants {
            by_name.entry(grant.name()).or_default().push(grant.grant_id());
        }
        let (single, several): (Vec<_>, Vec<_>) =
            by_name.into_iter().partition(|(_, ids)| ids.len() == 1);
        let together = single.chunks(IDS_MAX).map(|part| {
            let (names, ids): (Vec<&str>, Vec<&str>) =
                part.iter().map(|(name, ids)| (*name, ids[0])).unzip();
            let ids_found = doc! { "$in": ids.clone() };
            statement(doc! { "$in": names }.into(), ids_found, &ids, sent)
        });
        let alone = several.iter().map(|(name, ids)| {
            let ids_found = doc! { "$all": ids.clone() };
            statement((*name).into(), ids_found, ids, sent)
        });
        doc! {
            "update": collection,
            "updates": together.chain(alone).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Renewed, Cause> {
        decode_update(reply, sent)
    }
}

/// A filter on elements: a document whose expiry is not a date.
pub(super) fn is_undated() -> Document {
    doc! { "$elemMatch": { holder::EXPIRES_AT: { "$not": { "$type": "date" } } } }
}

fn statement(names: Bson, ids_found: Document, ids: &[&str], sent: Instant) -> Document {
    let filter = doc! {
        schema::NAME: names,
        format!("{}.{}", schema::HOLDERS, holder::ID): ids_found,
        schema::VALUE: schema::SHARED_VALUE,
        // A corrupt document is not repaired. As an expression, for the reason that `RenewMany` names.
        "$expr": is_date(schema::EXPIRES_AT),
        schema::HOLDERS: { "$type": "array", "$not": is_undated() },
    };
    doc! {
        "q": filter,
        "u": prolonged(ids, sent),
        "multi": true,
        "collation": simple_collation(),
    }
}

/// The stages that prolong these grants. `$max` is necessary, as for an exclusive one.
fn prolonged(ids: &[&str], sent: Instant) -> Vec<Document> {
    let id = of_each(holder::ID);
    let literals: Vec<Bson> = ids.iter().map(|id| literal(*id).into()).collect();
    let is_ours = doc! { "$in": [id, literals] };
    let again = doc! {
        holder::EXPIRES_AT: { "$max": [of_each(holder::EXPIRES_AT), until()] },
        holder::SENT: echo(sent),
        holder::WRITES: one_more(&of_each(holder::WRITES)),
    };
    let each = doc! { "$cond": [is_ours, { "$mergeObjects": [EACH, again] }, EACH] };
    let holders = path(schema::HOLDERS);
    let all = doc! { "$map": { "input": &holders, "as": "entry", "in": each } };
    let latest = doc! { "$max": format!("{holders}.{}", holder::EXPIRES_AT) };
    let top = doc! { "$max": [path(schema::EXPIRES_AT), latest] };
    vec![doc! { "$set": { schema::HOLDERS: all } }, doc! { "$set": { schema::EXPIRES_AT: top } }]
}

/// Until when a renewal prolongs a holder: null, and so no longer than before, where one of its times is corrupt.
///
/// An error would fail the renewal of every other lease in the command. A text or a list counts as more than each
/// number, and null as less.
fn until() -> Document {
    let lasts = [holder::TTL_MS, holder::MAX_CLOCK_SKEW_MS].map(of_each);
    let both = |operator: &str| doc! { operator: [&lasts[0], &lasts[1]] };
    let are_times = doc! {
        "$and": [{ "$gte": [both("$min"), 0] }, { "$lt": [both("$max"), queue::MILLIS_MAX] }],
    };
    let until = doc! { "$add": ["$$NOW", &lasts[0], &lasts[1]] };
    doc! { "$cond": [are_times, until, Bson::Null] }
}
