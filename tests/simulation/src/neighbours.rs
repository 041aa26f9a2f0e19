//! Others that write to the leases' documents: the TTL monitor, a program with the plain recipe, an operator, and what
//! damages stored numbers.

use std::sync::Arc;

use mongo_lease_checker::history::What;
use mongo_lease_core::spec::{self, Element, Entry, Expiry, Grant, HolderElement};
use mongo_lease_core::texts::{LeaseDocument, Texts};
use mongo_lease_memory::Collection;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::plan::ROUND_MS;
use crate::world::{COLLECTION, World, sleep_ms};

/// The leases for which a program with the plain recipe competes. Nobody waits for them: the recipe knows no queue.
pub(crate) const PLAIN: [&str; 2] = ["plain:0", "plain:1"];
/// The lease that an operator releases under its holders, and the beginning of the names of those that keepers hold.
pub(crate) const OPERATED: &str = "operated";
/// How many leases a keeper holds at once.
pub(crate) const KEPT: usize = 3;
/// The lease whose expiry another program overwrites by something that is no date, and repairs later.
pub(crate) const SPOILT: &str = "spoilt";
/// The expiry that a repair sets.
pub(crate) const MENDED: Expiry = Expiry::At(0);
/// How long a spoilt document stays so, in milliseconds: longer than anybody believes.
const SPOILT_MS: u64 = 6_000;
/// How often the TTL monitor runs, in milliseconds.
const MONITOR_MS: u64 = 1_000;
/// The numbers that damage writes.
const DAMAGES: [i64; 5] = [0, 1, -1, -5_000, 7];

/// The TTL monitor.
pub(crate) async fn monitor(world: Arc<World>) {
    loop {
        sleep_ms(MONITOR_MS).await;
        world.store.delete_expired();
    }
}

/// A program with the plain recipe: it holds for a while, and releases, or lets the lease expire.
pub(crate) async fn plain_program(world: Arc<World>, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0_u64.. {
        sleep_ms(random.random_range(300..3_000)).await;
        let name = PLAIN[random.random_range(0..PLAIN.len())];
        let (value, ttl) = (format!("plain{number}"), random.random_range(100..2_000));
        let is_held = apply(&world, name, |found, now| {
            spec::foreign_acquire::<Texts>(found, value.clone(), now, ttl)
        });
        sleep_ms(random.random_range(50..1_500)).await;
        if is_held && random.random_bool(0.7) {
            apply(&world, name, |found, _| spec::foreign_release::<Texts>(found, &value));
        }
    }
}

/// Whether an operator releases this lease under its holders.
pub(crate) fn is_operated(name: &str) -> bool {
    name.starts_with(OPERATED)
}

/// The lease with this number of the keeper of a process.
pub(crate) fn kept(process: &str, number: usize) -> String {
    format!("{OPERATED}:{process}:{number}")
}

/// An operator, who releases a lease without asking its holder.
pub(crate) async fn operator(world: Arc<World>, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    loop {
        sleep_ms(random.random_range(500..3_000)).await;
        let place: usize = random.random_range(0..1_000);
        let held: Vec<String> = world.store.on_server(COLLECTION, |leases| {
            let operated = leases.after(None).filter(|(name, _)| is_operated(name));
            operated.map(|(name, _)| name.to_owned()).collect()
        });
        if let Some(name) = held.get(place % held.len().max(1)) {
            world.store.release(name);
        }
    }
}

/// A program that writes something into the expiry of a lease that is no date, and repairs it later.
pub(crate) async fn spoiler(world: Arc<World>, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let set = |expiry: Expiry| {
        apply(&world, SPOILT, |mut found, _| {
            let to_do =
                found.as_mut().filter(|it| expiry != MENDED || it.expiry == Expiry::Damaged);
            to_do.into_iter().for_each(|document| document.expiry = expiry);
            (found, ())
        });
    };
    while world.elapsed_ms() + 2 * SPOILT_MS < ROUND_MS {
        set(Expiry::Damaged);
        sleep_ms(SPOILT_MS).await;
        set(MENDED);
        sleep_ms(random.random_range(100..3_000)).await;
    }
    // A new primary may have undone a repair.
    sleep_ms(2 * SPOILT_MS).await;
    set(MENDED);
}

fn apply<R>(
    world: &World,
    name: &str,
    effect: impl FnOnce(Option<LeaseDocument>, i64) -> (Option<LeaseDocument>, R),
) -> R {
    world.store.on_server(COLLECTION, |collection| collection.apply(name, effect))
}

/// Overwrites one number of a random lease.
pub(crate) fn damage(world: &World, random: &mut StdRng) {
    let (place, field) = (random.random_range(0..1_000_usize), random.random_range(0..4));
    let with = DAMAGES[random.random_range(0..DAMAGES.len())];
    let damaged = world.store.on_server(COLLECTION, |leases| overwrite(leases, place, field, with));
    if let Some((name, value)) = damaged {
        let (number, with) = (field.to_string(), with.to_string());
        world.note("suite", What::Damaged { name, value, number, with });
    }
}

/// Says in whose grant or entry it has overwritten the number.
fn overwrite(
    leases: &mut Collection<'_>,
    place: usize,
    field: u64,
    with: i64,
) -> Option<(String, String)> {
    let others = leases.after(None).filter(|(name, _)| *name != SPOILT);
    let names: Vec<String> = others.map(|(name, _)| name.to_owned()).collect();
    let name = names.get(place % names.len().max(1))?;
    let value = leases.apply(name, |mut found, _| {
        let value = found.as_mut().and_then(|it| damage_one(it, place, field, with));
        (found, value)
    });
    Some((name.clone(), value?))
}

fn damage_one(document: &mut LeaseDocument, place: usize, field: u64, with: i64) -> Option<String> {
    let holds_itself = document.holders_grant().is_some();
    let own = document.grant.as_mut().filter(|_| holds_itself);
    let mut grants: Vec<&mut Grant<Texts>> = own.into_iter().collect();
    for element in document.holders.elements_mut() {
        if let HolderElement::Holder(holder) = element {
            grants.push(&mut holder.grant);
        }
    }
    let mut entries: Vec<&mut Entry<Texts>> = Vec::new();
    for element in document.queue.elements_mut() {
        if let Element::Entry(entry) = element {
            entries.push(entry);
        }
    }
    let one = place % (grants.len() + entries.len()).max(1);
    if let Some(grant) = grants.get_mut(one) {
        let number = match field {
            0 => &mut grant.ttl,
            1 => &mut grant.max_clock_skew,
            2 => &mut grant.sent,
            _ => &mut grant.writes,
        };
        *number = with;
        return Some(grant.value.clone());
    }
    let entry = entries.get_mut(one - grants.len())?;
    let number = match field {
        0 => &mut entry.ttl,
        1 => &mut entry.max_clock_skew,
        2 => &mut entry.sent,
        _ => &mut entry.heartbeat_at,
    };
    *number = with;
    Some(entry.value.clone())
}
