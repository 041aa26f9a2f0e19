//! Another program overwrites stored numbers of the leases, at random moments.
//!
//! `name`, `value`, the ids and every `expiresAt` stay sound: these decide who holds. So do `permits` and `limit`, by
//! which other programs count, and the texts `promoted` and `admitted`, which are no numbers.

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::error::Error;
use mongo_lease_checker::MILLI;
use mongo_lease_checker::history::What;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target, some};
use crate::clock;
use crate::cluster::{COLLECTION, Cluster, Failed, PATIENCE};

/// For how long numbers are overwritten, in milliseconds.
const LASTS_MS: std::ops::Range<u64> = 1_500..5_000;
/// The time between two of them, in milliseconds.
const APART_MS: std::ops::Range<u64> = 5..60;

/// The damaged numbers of a holder of an exclusive lease, and of one in shared use.
const OF_HOLDER: [&str; 4] = ["ttlMs", "maxClockSkewMs", "sentMicros", "writes"];
/// Those of an entry in the queue.
const OF_ENTRY: [&str; 4] = ["ttlMs", "maxClockSkewMs", "sentMicros", "heartbeatAt"];

/// One number to be overwritten.
#[derive(Clone, Debug, PartialEq)]
struct Damage {
    name: String,
    /// The value of the holder or the waiter whose number it is.
    value: String,
    /// The part of the document: `grant`, `holders` or `queue`.
    part: &'static str,
    field: &'static str,
    /// The new value; `None` removes the field.
    with: Option<Bson>,
}

impl Damage {
    /// A command that changes this number alone, and only while its holder or waiter is in the document.
    fn command(&self) -> Document {
        let Damage { name, value, part, field, with } = self;
        let is_list = *part != "grant";
        let place = match is_list {
            true => format!("{part}.$[it].{field}"),
            false => format!("{part}.{field}"),
        };
        let of_value = if is_list { format!("{part}.value") } else { "value".to_owned() };
        let change = match with {
            Some(with) => doc! { "$set": { place: with } },
            None => doc! { "$unset": { place: 1 } },
        };
        let mut update = doc! { "q": { "name": name, of_value: value }, "u": change };
        if is_list {
            update.insert("arrayFilters", vec![doc! { "it.value": value }]);
        }
        doc! { "update": COLLECTION, "updates": [update] }
    }
}

/// Overwrites numbers of random leases until the time is over.
pub(super) async fn damage(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let lasts = some(random, LASTS_MS);
    let primary = target.cluster.wait_for_primary().await?;
    let fault = target.began(Nemesis::Damage, format!("stored numbers for {lasts:?}"));
    let until = clock::now() + u64::try_from(lasts.as_millis()).unwrap_or(0) * MILLI;
    while clock::now() < until {
        let strike = strike(target, primary, random);
        // During another fault this may fail: then it damages nothing.
        let _under_fault = tokio::time::timeout(PATIENCE, strike).await;
        tokio::time::sleep(some(random, APART_MS)).await;
    }
    target.ended(fault);
    Ok(())
}

async fn strike(target: &Target, member: usize, random: &mut StdRng) -> Result<(), Error> {
    let leases = target.cluster.database(member).collection::<Document>(COLLECTION);
    let found: Vec<Document> = leases.find(doc! {}).await?.try_collect().await?;
    if found.is_empty() {
        return Ok(());
    }
    let lease = &found[random.random_range(0..found.len())];
    let Some(damage) = any(lease, random) else {
        return Ok(());
    };
    // Before the write, which may become visible before its answer.
    let Damage { name, value, part, field, .. } = &damage;
    target.history.note(What::Damaged {
        name: name.clone(),
        value: value.clone(),
        number: format!("{part}.{field}"),
        with: damage.with.as_ref().map_or_else(|| "missing".to_owned(), Bson::to_string),
    });
    overwrite(&target.cluster, member, &damage).await
}

async fn overwrite(cluster: &Cluster, member: usize, damage: &Damage) -> Result<(), Error> {
    cluster.database(member).run_command(damage.command()).await.map(drop)
}

/// Any number of the lease: of its holders twice as often as of its waiters.
fn any(lease: &Document, random: &mut StdRng) -> Option<Damage> {
    let of = |document: &Document| document.get_str("value").unwrap_or_default().to_owned();
    let list = |part: &str| -> Vec<String> {
        let list = lease.get_array(part).into_iter().flatten();
        list.filter_map(Bson::as_document).map(of).collect()
    };
    let (holders, waiters) = (list("holders"), list("queue"));
    let exclusive = of(lease);
    let is_shared = mongo_lease::LeaseInfo::is_shared_value(&exclusive);
    let (part, values) = if !waiters.is_empty() && random.random_bool(0.3) {
        ("queue", waiters)
    } else if is_shared {
        ("holders", holders)
    } else {
        ("grant", vec![exclusive])
    };
    let value = values.get(random.random_range(0..values.len().max(1)))?.clone();
    let fields = if part == "queue" { OF_ENTRY } else { OF_HOLDER };
    let mut field = fields[random.random_range(0..fields.len())];
    // The ttl decides about most.
    if random.random_bool(0.4) {
        field = "ttlMs";
    }
    let table = hostile();
    let with = table[random.random_range(0..table.len())].clone();
    Some(Damage { name: lease.get_str("name").ok()?.to_owned(), value, part, field, with })
}

/// The values that replace a number. The numbers that are too great overflow every date: no lease gets an expiry in
/// some century, which would be a lease that is not free.
fn hostile() -> Vec<Option<Bson>> {
    vec![
        None,
        Some(Bson::Null),
        Some(Bson::Int64(0)),
        Some(Bson::Int64(1)),
        Some(Bson::Int64(-1)),
        Some(Bson::Int64(-5_000)),
        Some(Bson::Int32(300)),
        Some(Bson::Double(0.5)),
        Some(Bson::Double(f64::NAN)),
        Some(Bson::Double(1e300)),
        Some(Bson::Int64(i64::MAX)),
        Some(Bson::Int64(i64::MIN)),
        Some(Bson::from("3000")),
        Some(Bson::from(doc! { "ttlMs": 1 })),
    ]
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn every(lease: &Document) -> Vec<Damage> {
        let mut random = StdRng::seed_from_u64(1);
        (0..2_000).filter_map(|_| any(lease, &mut random)).collect()
    }

    #[test]
    fn each_number_of_a_holder_and_a_waiter_is_hit_with_each_hostile_value() {
        let lease = doc! { "name": "n", "value": "v", "grant": {}, "queue": [{ "value": "w" }] };
        let all = every(&lease);
        for field in OF_HOLDER {
            assert!(all.iter().any(|it| (it.part, it.field) == ("grant", field)), "{field}");
        }
        for field in OF_ENTRY {
            assert!(all.iter().any(|it| (it.part, it.field) == ("queue", field)), "{field}");
        }
        // NaN equals nothing.
        let has = |with: &Option<Bson>| {
            all.iter().any(|it| format!("{:?}", it.with) == format!("{with:?}"))
        };
        assert!(hostile().iter().all(has));
        let sound = ["name", "value", "id", "expiresAt", "permits", "limit"];
        assert!(all.iter().all(|it| !sound.contains(&it.field)));
    }

    #[test]
    fn a_holder_in_shared_use_is_hit_in_the_list() {
        let holders = vec![doc! { "value": "a" }, doc! { "value": "b" }];
        let lease = doc! { "name": "n", "value": "mongo-lease/shared", "holders": holders };
        let all = every(&lease);
        assert!(all.iter().all(|it| it.part == "holders"));
        assert!(all.iter().any(|it| it.value == "a") && all.iter().any(|it| it.value == "b"));
    }

    #[test]
    fn a_command_matches_the_holder_and_changes_one_field() {
        let (name, value) = ("n".to_owned(), "v".to_owned());
        let with = Some(Bson::Int64(1));
        let one = Damage { name, value, part: "holders", field: "ttlMs", with };
        let update = doc! {
            "q": { "name": "n", "holders.value": "v" },
            "u": { "$set": { "holders.$[it].ttlMs": 1_i64 } },
            "arrayFilters": [{ "it.value": "v" }],
        };
        assert_eq!(one.command(), doc! { "update": COLLECTION, "updates": [update] });
        let other = Damage { part: "grant", with: None, ..one };
        let update =
            doc! { "q": { "name": "n", "value": "v" }, "u": { "$unset": { "grant.ttlMs": 1 } } };
        assert_eq!(other.command(), doc! { "update": COLLECTION, "updates": [update] });
    }
}
