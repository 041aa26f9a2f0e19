//! Another program keeps its locks in the same collection: the two exclude each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Attempt, Error, LeaseManager, Released};
use mongo_lease_testbed::Server;
use tokio::task::JoinSet;

use crate::common::{SHORT_TTL, TryOnce, builder, document, migrated};
use crate::patience::until;
use crate::permits::{Ask, permits, reader, writer};
use crate::recipe::{Flavour, Recipe};

const NAMES: usize = 8;
const ROUNDS: usize = 1_000;
/// One in this many rounds each winner crashes, and the name stays taken until it expires.
const CRASH_EVERY: usize = 25;
const CRASH_TTL: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_against_the_plain_recipe_have_one_holder() {
    let seen = contest(Flavour::Correct).await;
    assert_eq!(seen.too_many, 0, "{seen:?}");
    // Both had a share, or it was no contest.
    assert!(seen.ours > ROUNDS / 20 && seen.theirs > ROUNDS / 20, "{seen:?}");
}

/// The negative controls: the same contest detects a program with a defect.
#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_each_defect() {
    for flavour in [Flavour::IgnoresExpiry, Flavour::ReleasesByNameAlone] {
        let seen = contest(flavour).await;
        assert!(seen.too_many > 0, "{flavour:?}: {seen:?}");
    }
}

/// Step by step, in both directions, and also where ours is a share.
#[tokio::test]
async fn lease_and_recipe_refuse_held_and_take_over_expired_locks() {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let recipe = Recipe::new(&database, Flavour::Correct);
    let one_of_two: Ask = |leases| permits(1, 2)(leases);
    for (ours, ask) in [("exclusive", writer as Ask), ("a permit", one_of_two), ("shared", reader)]
    {
        eprintln!("our lease is {ours}");
        let lease = ask(&leases).await.unwrap();
        assert_eq!(recipe.lock("a", TTL).await, None);
        assert!(!recipe.unlock("a", "a guess").await);
        lease.release().await.unwrap();

        let theirs = recipe.lock("a", TTL).await.expect("it is free");
        let Attempt::Busy(held) = ask(&leases).try_once().await.unwrap() else {
            panic!("granted what another program holds");
        };
        assert_eq!((held.value.as_ref(), held.owner), (Some(&theirs), None));
        assert_eq!(leases.release("a", "a guess").await.unwrap(), Released::NotHeld);
        assert!(recipe.unlock("a", &theirs).await);

        recipe.lock("a", SHORT_TTL).await.expect("it is free");
        let lease = ask(&leases).ttl(SHORT_TTL).renew(false).await.unwrap();
        assert!(!recipe.unlock("a", &theirs).await, "a late release of theirs");
        lease.lost().await;
        // The holder stops some milliseconds before the server does.
        let theirs = until("the lease has expired", async || recipe.lock("a", TTL).await).await;
        assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
        let found = document(&database, "a").await.unwrap();
        assert_eq!(found.get_str("value").ok(), Some(theirs.as_str()));
        assert!(recipe.unlock("a", &theirs).await);
    }
}

/// The result of a contest.
#[derive(Debug, Default)]
struct Tally {
    ours: usize,
    theirs: usize,
    /// A holder came in beside another.
    too_many: usize,
}

/// Runs the rounds, on several names at once, until one of them has seen too many holders. In each, two tasks of ours
/// and two of theirs want the same name.
async fn contest(flavour: Flavour) -> Tally {
    let server = Server::shared();
    let database = migrated(server).await;
    let their_client = server.client().await;
    let theirs = Recipe::new(&database.through(&their_client), flavour);
    let seen = Arc::<Mutex<Tally>>::default();
    let mut contests = JoinSet::new();
    for name in 0..NAMES {
        let ours = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
        let contest = Contest {
            name: format!("name:{name}"),
            database: (*database).clone(),
            ours,
            theirs: theirs.clone(),
            inside: Arc::default(),
            seen: Arc::clone(&seen),
        };
        contests.spawn(contest.run());
    }
    contests.join_all().await;
    std::mem::take(&mut *seen.lock().unwrap())
}

/// The contest for one name.
#[derive(Clone)]
struct Contest {
    name: String,
    database: Database,
    ours: LeaseManager,
    theirs: Recipe,
    /// How many holders are inside, as the guarded resource sees them.
    inside: Arc<AtomicUsize>,
    /// The result for all names.
    seen: Arc<Mutex<Tally>>,
}

impl Contest {
    async fn run(self) {
        for round in 1..=ROUNDS / NAMES {
            if self.seen.lock().unwrap().too_many > 0 {
                break;
            }
            let crash = round % CRASH_EVERY == 0;
            let mut contenders = JoinSet::new();
            for _ in 0..2 {
                contenders.spawn(self.clone().one_of_ours(crash));
                contenders.spawn(self.clone().one_of_theirs(crash));
            }
            contenders.join_all().await;
        }
    }

    async fn one_of_ours(self, crash: bool) {
        let ttl = if crash { CRASH_TTL } else { TTL };
        let acquire = self.ours.acquire(&self.name).ttl(ttl).renew(false);
        let lease = match acquire.wait(Duration::ZERO).await {
            Ok(lease) => lease,
            Err(Error::Busy(_)) => return,
            // A very short ttl leaves the database little time to answer. A grant that comes all the same is given
            // back.
            Err(Error::Unknown { .. }) if crash => return,
            Err(error) => panic!("{error}"),
        };
        self.seen.lock().unwrap().ours += 1;
        if crash {
            // A very short ttl may be over before the first renewal; then the lease is given back.
            drop(lease.detach().await);
        } else {
            self.visit().await;
            lease.release().await.unwrap();
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
        self.seen.lock().unwrap().theirs += 1;
        if !crash {
            self.visit().await;
            self.theirs.unlock(&self.name, &value).await;
        }
    }

    /// A holder's work: it is inside for a round trip to the database.
    async fn visit(&self) {
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.seen.lock().unwrap().too_many += 1;
        }
        self.database.run_command(doc! { "ping": 1 }).await.unwrap();
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}
