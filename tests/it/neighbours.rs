//! Another program keeps its locks in the same collection: the two exclude each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Acquire, Attempt, Error, LeaseManager, Released};
use mongo_lease_testbed::Server;
use tokio::task::JoinSet;

use crate::common::{SHORT_TTL, TryOnce, builder, document, migrated};
use crate::patience::until;
use crate::recipe::{Flavour, Recipe};

const NAMES: usize = 8;
const ROUNDS: usize = 1_000;
/// One in this many rounds each winner crashes, and the name stays taken until it expires.
const CRASH_EVERY: usize = 25;
const CRASH_TTL: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(30);
/// Longer than a test waits for anything.
const OUTLASTING: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_against_the_plain_recipe_have_one_holder() {
    assert_is_clean(&contest(Flavour::Correct, Use::Exclusive).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_have_no_permit_beside_the_recipes_lock() {
    let seen = contest(Flavour::Correct, Use::Permits).await;
    assert_is_clean(&seen);
    assert!(seen.ours_together > 0, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_have_no_reader_beside_the_recipes_lock() {
    let seen = contest(Flavour::Correct, Use::Readers).await;
    assert_is_clean(&seen);
    assert!(seen.ours_together > 0, "{seen:?}");
}

fn assert_is_clean(seen: &Tally) {
    assert_eq!(seen.too_many, 0, "{seen:?}");
    // Both had a share, or it was no contest.
    assert!(seen.ours > ROUNDS / 20 && seen.theirs > ROUNDS / 20, "{seen:?}");
    eprintln!("{seen:?}");
}

/// The negative controls: the same contest detects a program with a defect.
#[tokio::test(flavor = "multi_thread")]
async fn the_contest_finds_out_a_neighbour_that_ignores_the_expiry() {
    assert!(is_found_out(Flavour::IgnoresExpiry, Use::Exclusive).await);
    assert!(is_found_out(Flavour::IgnoresExpiry, Use::Permits).await);
    assert!(is_found_out(Flavour::IgnoresExpiry, Use::Readers).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_a_neighbour_that_releases_by_name_alone() {
    assert!(is_found_out(Flavour::ReleasesByNameAlone, Use::Exclusive).await);
    assert!(is_found_out(Flavour::ReleasesByNameAlone, Use::Permits).await);
    assert!(is_found_out(Flavour::ReleasesByNameAlone, Use::Readers).await);
}

/// Permits of ours that do not fit are detected too, or the limit was never tested.
#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_a_permit_too_many() {
    assert!(is_found_out(Flavour::Correct, Use::OneTooMany).await);
}

/// Whether a contest of as many rounds as the correct one's sees two holders at once.
async fn is_found_out(flavour: Flavour, how: Use) -> bool {
    contest(flavour, how).await.too_many > 0
}

/// Step by step, and in both directions.
#[tokio::test]
async fn lease_and_recipe_refuse_held_and_take_over_expired_locks() {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let recipe = Recipe::new(&database, Flavour::Correct);

    let lease = leases.acquire("a").await.unwrap();
    assert_eq!(recipe.lock("a", TTL).await, None);
    assert!(!recipe.unlock("a", "a guess").await);
    lease.release().await.unwrap();

    let theirs = recipe.lock("a", TTL).await.expect("it is free");
    let Attempt::Busy(held) = leases.try_acquire("a").await.unwrap() else {
        panic!("granted what another program holds");
    };
    assert_eq!((held.value.as_ref(), held.owner), (Some(&theirs), None));
    assert_eq!(leases.release("a", "a guess").await.unwrap(), Released::NotHeld);
    assert!(recipe.unlock("a", &theirs).await);

    recipe.lock("a", SHORT_TTL).await.expect("it is free");
    let lease = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    assert!(!recipe.unlock("a", &theirs).await, "a late release of theirs");
    lease.lost().await;
    let theirs = loop {
        if let Some(value) = recipe.lock("a", TTL).await {
            break value;
        }
    };
    assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(theirs.as_str()));
}

/// The last share has to run out before the other program gets the name, and its lock before we do.
#[tokio::test]
async fn shares_and_recipe_refuse_each_other_until_the_last_expiry() {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let recipe = Recipe::new(&database, Flavour::Correct);
    let share = || leases.semaphore("a", 2).acquire().renew(false);

    let first = share().ttl(SHORT_TTL).await.unwrap();
    let second = share().ttl(OUTLASTING).await.unwrap();
    first.lost().await;
    assert_eq!(recipe.lock("a", TTL).await, None, "the second one holds");
    assert!(!recipe.unlock("a", second.value()).await, "a share is not released by its value");
    second.release().await.unwrap();

    // The first one's holder stops some milliseconds before the server does.
    let theirs = until("nobody holds it any more", async || recipe.lock("a", TTL).await).await;
    let Attempt::Busy(held) = share().try_once().await.unwrap() else {
        panic!("granted what another program holds");
    };
    assert_eq!((held.value.as_ref(), held.owner), (Some(&theirs), None));
    assert!(recipe.unlock("a", &theirs).await);

    let last = share().ttl(SHORT_TTL).await.unwrap();
    last.lost().await;
    let theirs = loop {
        if let Some(value) = recipe.lock("a", TTL).await {
            break value;
        }
    };
    assert_eq!(last.release().await.unwrap(), Released::NotHeld);
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(theirs.as_str()));
}

/// The result of a contest.
#[derive(Debug, Default)]
struct Tally {
    ours: usize,
    theirs: usize,
    /// A holder came in beside one of the other program, or beside too many of its own.
    too_many: usize,
    /// One of ours came in beside another of ours, and both fitted.
    ours_together: usize,
}

/// How we use the names: the other program knows nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Exclusive,
    /// One permit each, of two.
    Permits,
    Readers,
    /// A negative control: permits of three, where the guarded resource allows two.
    OneTooMany,
}

impl Use {
    fn acquire(self, leases: &LeaseManager, name: &str) -> Acquire {
        match self {
            Use::Exclusive => leases.acquire(name),
            Use::Permits => leases.semaphore(name, 2).acquire(),
            Use::Readers => leases.acquire(name).shared(),
            Use::OneTooMany => leases.semaphore(name, 3).acquire(),
        }
    }

    /// How many of ours the guarded resource allows at once.
    fn limit(self) -> usize {
        match self {
            Use::Exclusive => 1,
            Use::Permits | Use::OneTooMany => 2,
            Use::Readers => usize::MAX,
        }
    }

    /// How many of ours want the same name.
    fn contenders(self) -> usize {
        if self == Use::Exclusive { 2 } else { 3 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

/// The holders inside, as the guarded resource sees them.
#[derive(Default)]
struct Witness {
    seen: Mutex<Tally>,
    inside: Mutex<Vec<Side>>,
}

impl Witness {
    /// A holder's work: it is inside for a round trip to the database.
    async fn visit(&self, database: &Database, side: Side, limit: usize) {
        self.enter(side, limit);
        database.run_command(doc! { "ping": 1 }).await.unwrap();
        let mut inside = self.inside.lock().unwrap();
        let own = inside.iter().position(|one| *one == side).unwrap();
        inside.swap_remove(own);
    }

    fn enter(&self, side: Side, limit: usize) {
        let mut inside = self.inside.lock().unwrap();
        inside.push(side);
        let are_ours = inside.iter().all(|one| *one == Side::Ours);
        let mut seen = self.seen.lock().unwrap();
        match inside.len() {
            1 => {}
            count if are_ours && count <= limit => seen.ours_together += 1,
            _ => seen.too_many += 1,
        }
    }
}

/// Runs the rounds, on several names at once, until one of them has seen too many holders. In each, tasks of ours and
/// two of theirs want the same name.
async fn contest(flavour: Flavour, how: Use) -> Tally {
    let server = Server::shared();
    let database = migrated(server).await;
    let their_client = server.client().await;
    let theirs = Recipe::new(&database.through(&their_client), flavour);
    let is_over = Arc::default();
    let mut contests = JoinSet::new();
    for name in 0..NAMES {
        let ours = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
        let contest = Contest {
            name: format!("name:{name}"),
            database: (*database).clone(),
            ours,
            theirs: theirs.clone(),
            how,
            witness: Arc::default(),
            is_over: Arc::clone(&is_over),
        };
        contests.spawn(contest.run());
    }
    let mut seen = Tally::default();
    while let Some(witness) = contests.join_next().await {
        let witness = witness.unwrap();
        let of_name = witness.seen.lock().unwrap();
        seen.ours += of_name.ours;
        seen.theirs += of_name.theirs;
        seen.too_many += of_name.too_many;
        seen.ours_together += of_name.ours_together;
    }
    seen
}

#[derive(Clone)]
struct Contest {
    name: String,
    database: Database,
    ours: LeaseManager,
    theirs: Recipe,
    how: Use,
    witness: Arc<Witness>,
    /// Whether a contest of any name has seen too many holders.
    is_over: Arc<AtomicBool>,
}

impl Contest {
    async fn run(self) -> Arc<Witness> {
        for round in 1..=ROUNDS / NAMES {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let crash = round % CRASH_EVERY == 0;
            let mut contenders = JoinSet::new();
            for _ in 0..self.how.contenders() {
                contenders.spawn(self.clone().one_of_ours(crash));
            }
            for _ in 0..2 {
                contenders.spawn(self.clone().one_of_theirs(crash));
            }
            contenders.join_all().await;
            let has_seen = self.witness.seen.lock().unwrap().too_many > 0;
            self.is_over.fetch_or(has_seen, Ordering::Relaxed);
        }
        self.witness
    }

    async fn one_of_ours(self, crash: bool) {
        let ttl = if crash { CRASH_TTL } else { TTL };
        let acquire = self.how.acquire(&self.ours, &self.name).ttl(ttl).renew(false);
        let lease = match acquire.wait(Duration::ZERO).await {
            Ok(lease) => Some(lease),
            Err(Error::Busy(_)) => None,
            // A very short ttl leaves the database little time to answer. A grant that comes all the same is given
            // back.
            Err(Error::Unknown { .. }) if crash => None,
            Err(error) => panic!("{error}"),
        };
        let Some(lease) = lease else { return };
        self.witness.seen.lock().unwrap().ours += 1;
        match crash {
            // A share cannot be detached. It is never dropped, and so it is not released.
            true if self.how != Use::Exclusive => std::mem::forget(lease),
            // A very short ttl may be over before the first renewal; then the lease is given back.
            true => drop(lease.detach().await),
            false => {
                self.witness.visit(&self.database, Side::Ours, self.how.limit()).await;
                lease.release().await.unwrap();
            }
        }
    }

    async fn one_of_theirs(self, crash: bool) {
        let ttl = if crash { CRASH_TTL } else { TTL };
        let value = match self.theirs.lock(&self.name, ttl).await {
            Some(value) => value,
            None => {
                // A holder that wakes again releases the lease that it believes to hold, and acquires anew.
                self.theirs.unlock(&self.name, "of long ago").await;
                let Some(value) = self.theirs.lock(&self.name, ttl).await else { return };
                value
            }
        };
        self.witness.seen.lock().unwrap().theirs += 1;
        if !crash {
            self.witness.visit(&self.database, Side::Theirs, 1).await;
            self.theirs.unlock(&self.name, &value).await;
        }
    }
}
