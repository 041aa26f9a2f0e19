//! Renew holders: prolongs the grants of one process.

use super::renew::renewal_relies_on;
use super::*;

/// The most ids of a statement: for each holder of each of its leases, the server walks over all of them.
const IDS_MAX: usize = 64;

/// Renews the grants that are still held. The effect on each lease is `spec::renew_holders`.
///
/// The reply counts documents. So leases of which the process has one grant share statements, and a lease of which it
/// has several has a statement of its own, which matches only if all of them are there.
#[derive(Clone, Debug)]
pub struct RenewHolders {
    /// The grants.
    pub grants: Vec<RenewalTarget>,
}

impl Command for RenewHolders {
    type Reply = Matched;
    const LANE: Lane = Lane::Critical;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut by_name: BTreeMap<&str, Vec<&RenewalTarget>> = BTreeMap::new();
        for grant in &self.grants {
            by_name.entry(grant.key.name()).or_default().push(grant);
        }
        let (single, several): (Vec<_>, Vec<_>) =
            by_name.into_iter().partition(|(_, grants)| grants.len() == 1);
        let mut single: Vec<&RenewalTarget> = single.into_iter().map(|(_, it)| it[0]).collect();
        // One statement for each time. The sort is stable: the names stay in order.
        single.sort_by_key(|grant| grant.lasts);
        let by_time = single.chunk_by(|one, other| one.lasts == other.lasts);
        let by_time = by_time.flat_map(|part| part.chunks(IDS_MAX));
        let together = by_time.map(|part| {
            let names: Vec<&str> = part.iter().map(|grant| grant.key.name()).collect();
            renewed(doc! { "$in": names }, doc! { "$in": ids(part) }, part, sent)
        });
        let alone = several
            .iter()
            .map(|(name, grants)| renewed(*name, doc! { "$all": ids(grants) }, grants, sent));
        update_many(collection, together.chain(alone).collect())
    }

    fn relies_on(&self, renewed: &Matched) -> Reliance {
        renewal_relies_on(&self.grants, renewed)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Matched, DecodeError> {
        decode_update(reply, sent)
    }
}

fn ids<'a>(grants: &[&'a RenewalTarget]) -> Vec<&'a str> {
    grants.iter().map(|grant| grant.key.grant_id()).collect()
}

/// The statement for leases of these names, in which these ids are found.
fn renewed(
    names: impl Into<Bson>,
    ids_found: Document,
    grants: &[&RenewalTarget],
    sent: Instant,
) -> Document {
    let undated = doc! { holder::EXPIRES_AT: { "$not": { "$type": "date" } } };
    let filter = doc! {
        format::NAME: names.into(),
        format!("{}.{}", format::HOLDERS, holder::ID): ids_found,
        format::VALUE: format::SHARED_VALUE,
        // A corrupt document is not repaired. It is an expression for the reason that `has_sound_expiry` names.
        "$expr": is_date(format::EXPIRES_AT),
        format::HOLDERS: { "$type": "array", "$not": { "$elemMatch": undated } },
    };
    statement_for_each(filter, prolonged(grants, sent))
}

/// The stages that prolong these grants. `$max` is necessary, as for an exclusive one.
fn prolonged(grants: &[&RenewalTarget], sent: Instant) -> Vec<Document> {
    let mut by_time: BTreeMap<Duration, Vec<Bson>> = BTreeMap::new();
    for grant in grants {
        by_time.entry(grant.lasts).or_default().push(literal(grant.key.grant_id()).into());
    }
    let holders = path(format::HOLDERS);
    let all = map(holders.as_str(), |each| {
        by_time.into_iter().fold(Bson::from(each), |others, (lasts, ids)| {
            let until = now_plus(millis_up(lasts));
            let again = doc! {
                holder::EXPIRES_AT: max(each.field(holder::EXPIRES_AT), until),
                holder::SENT_MICROS: echo(sent),
            };
            cond(is_in(each.field(holder::ID), ids), merge(each, again), others).into()
        })
    });
    let latest = doc! { "$max": format!("{holders}.{}", holder::EXPIRES_AT) };
    let top = max(path(format::EXPIRES_AT), latest);
    vec![doc! { "$set": { format::HOLDERS: all } }, doc! { "$set": { format::EXPIRES_AT: top } }]
}
