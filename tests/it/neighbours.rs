//! Another program keeps its locks in the same collection: the two exclude each other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Acquire, Error, LeaseManager, Released};
use mongo_lease_testbed::Server;
use tokio::task::JoinSet;

use crate::common::{
    SHORT_TTL, assert_not_done, builder, document, known_release, migrated, refused, short_or_long,
};
use crate::patience::until;
use crate::recipe::{Flavour, Recipe};

const NAMES: usize = 8;
/// The rounds in which a defect must be detected.
const ROUNDS_MAX: usize = 1_000;
/// One in this many rounds each winner crashes, and the name stays taken until it expires.
const CRASH_EVERY: usize = 5;
const CRASH_TTL: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn contests_with_the_plain_recipe_have_one_holder() {
    assert_is_clean(Use::Exclusive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contests_have_no_permit_beside_the_recipes_lock() {
    assert_is_clean(Use::Permits(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contests_have_no_reader_beside_the_recipes_lock() {
    assert_is_clean(Use::Readers).await;
}

async fn assert_is_clean(how: Use) {
    let rounds = short_or_long(60, 1_000);
    let seen = contest(Flavour::Correct, how, rounds).await;
    assert_eq!(seen.too_many, 0, "{seen:?}");
    // Both had a share, or it was no contest.
    assert!(seen.ours > rounds / 20 && seen.theirs > rounds / 20, "{seen:?}");
    assert_eq!(seen.ours_together > 0, how != Use::Exclusive, "{seen:?}");
}

/// The negative controls: the same contest detects a program with a defect. Permits of ours that do not fit are
/// detected too, or the limit was never tested.
#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_each_defect() {
    for (flavour, how) in [
        (Flavour::IgnoresExpiry, Use::Exclusive),
        (Flavour::IgnoresExpiry, Use::Permits(2)),
        (Flavour::IgnoresExpiry, Use::Readers),
        (Flavour::ReleasesByNameAlone, Use::Exclusive),
        (Flavour::ReleasesByNameAlone, Use::Permits(2)),
        (Flavour::ReleasesByNameAlone, Use::Readers),
        (Flavour::Correct, Use::Permits(3)),
    ] {
        let seen = contest(flavour, how, ROUNDS_MAX).await;
        assert!(seen.too_many > 0, "{flavour:?}, {how:?}: {seen:?}");
    }
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
    let held = refused(&leases, "a").await;
    assert_eq!((held.value.as_ref(), held.owner), (Some(&theirs), None));
    assert_eq!(known_release(&leases, "a", "a guess").await, Released::NotHeld);
    assert!(recipe.unlock("a", &theirs).await);

    recipe.lock("a", SHORT_TTL).await.expect("it is free");
    let lease = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    assert!(!recipe.unlock("a", &theirs).await, "a late release of theirs");
    lease.lost().await;
    // The holder stops some milliseconds before the server does.
    let theirs = until("the lease has expired", async || recipe.lock("a", TTL).await).await;
    assert_not_done(lease.release().await.unwrap());
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
    /// One permit each, under this limit. The guarded resource allows two.
    Permits(u32),
    Readers,
}

impl Use {
    fn acquire(self, leases: &LeaseManager, name: &str) -> Acquire {
        match self {
            Use::Exclusive => leases.acquire(name),
            Use::Permits(limit) => leases.semaphore(name, limit).acquire(),
            Use::Readers => leases.acquire(name).shared(),
        }
    }

    /// How many of ours the guarded resource allows at once.
    fn limit(self) -> usize {
        match self {
            Use::Exclusive => 1,
            Use::Permits(_) => 2,
            Use::Readers => usize::MAX,
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Ours,
    Theirs,
}

/// Runs the rounds, on several names at once, until one of them has seen too many holders. In each, tasks of ours and
/// two of theirs want the same name.
async fn contest(flavour: Flavour, how: Use, rounds: usize) -> Tally {
    let server = Server::shared();
    let database = migrated(server).await;
    let theirs = Recipe::new(&database.through(&server.client().await), flavour);
    let seen = Arc::<Mutex<Tally>>::default();
    let mut contests = JoinSet::new();
    for name in 0..NAMES {
        let contest = Contest {
            name: format!("name:{name}"),
            database: (*database).clone(),
            ours: builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap(),
            theirs: theirs.clone(),
            how,
            rounds: rounds / NAMES,
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
    how: Use,
    rounds: usize,
    /// How many holders of each side are inside, as the guarded resource sees them.
    inside: Arc<Mutex<[usize; 2]>>,
    /// The result for all names.
    seen: Arc<Mutex<Tally>>,
}

impl Contest {
    async fn run(self) {
        for round in 1..=self.rounds {
            if self.seen.lock().unwrap().too_many > 0 {
                break;
            }
            let crash = round % CRASH_EVERY == 0;
            let mut contenders = JoinSet::new();
            for _ in 0..if self.how == Use::Exclusive { 2 } else { 3 } {
                contenders.spawn(self.clone().one_of_ours(crash));
            }
            for _ in 0..2 {
                contenders.spawn(self.clone().one_of_theirs(crash));
            }
            contenders.join_all().await;
        }
    }

    async fn one_of_ours(self, crash: bool) {
        let ttl = if crash { CRASH_TTL } else { TTL };
        let acquire = self.how.acquire(&self.ours, &self.name).ttl(ttl).renew(false);
        let lease = match acquire.wait(Duration::ZERO).await {
            Ok(lease) => lease,
            Err(Error::Busy(_)) => return,
            // A very short ttl leaves the database little time to answer. A grant that comes all the same is given
            // back.
            Err(Error::Unknown { .. }) if crash => return,
            Err(error) => panic!("{error}"),
        };
        self.seen.lock().unwrap().ours += 1;
        match crash {
            // A share cannot be detached. It is never dropped, and so it is not released.
            true if self.how != Use::Exclusive => std::mem::forget(lease),
            // A very short ttl may be over before the first renewal; then the lease is given back.
            true => drop(lease.detach().await),
            false => {
                self.visit(Side::Ours).await;
                lease.release().await.unwrap();
            }
        }
    }

    async fn one_of_theirs(self, crash: bool) {
        let ttl = if crash { CRASH_TTL } else { TTL };
        let mut value = self.theirs.lock(&self.name, ttl).await;
        if value.is_none() {
            // A holder that wakes again releases the lease that it believes to hold, and acquires anew.
            self.theirs.unlock(&self.name, "of long ago").await;
            value = self.theirs.lock(&self.name, ttl).await;
        }
        let Some(value) = value else { return };
        self.seen.lock().unwrap().theirs += 1;
        if !crash {
            self.visit(Side::Theirs).await;
            self.theirs.unlock(&self.name, &value).await;
        }
    }

    /// A holder's work: it is inside for a round trip to the database.
    async fn visit(&self, side: Side) {
        self.enter(side);
        self.database.run_command(doc! { "ping": 1 }).await.unwrap();
        self.inside.lock().unwrap()[side as usize] -= 1;
    }

    fn enter(&self, side: Side) {
        let mut inside = self.inside.lock().unwrap();
        inside[side as usize] += 1;
        let mut seen = self.seen.lock().unwrap();
        match *inside {
            [0, 1] | [1, 0] => {}
            [ours, 0] if ours <= self.how.limit() => seen.ours_together += 1,
            _ => seen.too_many += 1,
        }
    }
}
