//! Another program keeps its locks in the same collection: the two exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Attempt, Error, LeaseManager, Released};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinSet;

use crate::common::{SHORT_TTL, builder, document, migrated};
use crate::recipe::{Flavour, Recipe};

const NAMES: usize = 8;
const ROUNDS: usize = 1_000;
/// One in this many rounds each winner crashes, and the name stays taken until it expires.
const CRASH_EVERY: usize = 25;
const CRASH_TTL: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_against_the_plain_recipe_have_one_holder() {
    let seen = contest(Flavour::Correct, ROUNDS).await;
    assert_eq!(seen.two_at_once, 0, "{seen:?}");
    // Both had a share, or it was no contest.
    assert!(seen.ours > ROUNDS / 20 && seen.theirs > ROUNDS / 20, "{seen:?}");
    eprintln!("{seen:?}");
}

/// The negative controls: the same contest detects a program with a defect.
#[tokio::test(flavor = "multi_thread")]
async fn the_contest_finds_out_a_neighbour_that_ignores_the_expiry() {
    assert!(is_found_out(Flavour::IgnoresExpiry).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_a_neighbour_that_releases_by_name_alone() {
    assert!(is_found_out(Flavour::ReleasesByNameAlone).await);
}

/// Whether a contest of no more rounds than the correct one's sees two holders at once.
async fn is_found_out(flavour: Flavour) -> bool {
    for _ in 0..ROUNDS / 100 {
        if contest(flavour, 100).await.two_at_once > 0 {
            return true;
        }
    }
    false
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

/// The result of a contest.
#[derive(Debug, Default)]
struct Tally {
    ours: usize,
    theirs: usize,
    two_at_once: usize,
}

/// The number of holders inside, as the guarded resource sees it.
#[derive(Default)]
struct Witness {
    inside: AtomicUsize,
    two_at_once: AtomicUsize,
    ours: AtomicUsize,
    theirs: AtomicUsize,
}

impl Witness {
    /// A holder's work: it is inside for a round trip to the database.
    async fn visit(&self, database: &Database) {
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.two_at_once.fetch_add(1, Ordering::SeqCst);
        }
        database.run_command(doc! { "ping": 1 }).await.unwrap();
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs this many rounds, on several names at once. In each, two of our tasks and two of theirs want the same name.
async fn contest(flavour: Flavour, rounds: usize) -> Tally {
    let server = Server::shared();
    let database = migrated(server).await;
    let their_client = server.client().await;
    let mut contests = JoinSet::new();
    for name in 0..NAMES {
        let contest = Contest::new(&database, &their_client, flavour, name).await;
        contests.spawn(contest.run(rounds / NAMES));
    }
    let mut seen = Tally::default();
    while let Some(witness) = contests.join_next().await {
        let witness = witness.unwrap();
        seen.ours += witness.ours.load(Ordering::SeqCst);
        seen.theirs += witness.theirs.load(Ordering::SeqCst);
        seen.two_at_once += witness.two_at_once.load(Ordering::SeqCst);
    }
    seen
}

#[derive(Clone)]
struct Contest {
    name: String,
    database: Database,
    ours: LeaseManager,
    theirs: Recipe,
    witness: Arc<Witness>,
}

impl Contest {
    async fn new(ours: &TestDatabase, theirs: &Client, flavour: Flavour, name: usize) -> Contest {
        let theirs = Recipe::new(&ours.through(theirs), flavour);
        let database: &Database = ours;
        Contest {
            name: format!("name:{name}"),
            database: database.clone(),
            ours: builder(ours).max_clock_skew(Duration::ZERO).build().await.unwrap(),
            theirs,
            witness: Arc::default(),
        }
    }

    async fn run(self, rounds: usize) -> Arc<Witness> {
        for round in 1..=rounds {
            let crash = round % CRASH_EVERY == 0;
            let mut contenders = JoinSet::new();
            for _ in 0..2 {
                contenders.spawn(self.clone().one_of_ours(crash));
                contenders.spawn(self.clone().one_of_theirs(crash));
            }
            contenders.join_all().await;
        }
        self.witness
    }

    async fn one_of_ours(self, crash: bool) {
        let ttl = if crash { CRASH_TTL } else { TTL };
        let lease = match self.ours.acquire(&self.name).ttl(ttl).renew(false).try_once().await {
            Ok(attempt) => attempt.granted(),
            // A very short ttl leaves the database little time to answer. A grant that comes all the same is given
            // back.
            Err(Error::Unknown { .. }) if crash => None,
            Err(error) => panic!("{error}"),
        };
        let Some(lease) = lease else { return };
        self.witness.ours.fetch_add(1, Ordering::SeqCst);
        match crash {
            // A very short ttl may be over before the first renewal; then the lease is given back.
            true => drop(lease.detach().await),
            false => {
                self.witness.visit(&self.database).await;
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
        self.witness.theirs.fetch_add(1, Ordering::SeqCst);
        if !crash {
            self.witness.visit(&self.database).await;
            self.theirs.unlock(&self.name, &value).await;
        }
    }
}
