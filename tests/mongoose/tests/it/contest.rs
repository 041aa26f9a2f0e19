//! Both programs at once, on the same names, through whole lives of leases.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Client, Collection};
use mongo_lease::{Acquire, Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinSet;

use crate::clock;
use crate::common::{LONG_TTL, builder, migrated};
use crate::history::{Hold, Side, is_contested, two_at_once};
use crate::neighbour::{Character, Neighbour, NeighbourOptions};
use crate::patience::PATIENCE;

const NAMES: usize = 12;
/// The default number of contested rounds; a variable changes it.
const ROUNDS: usize = 1_000;
const ROUNDS_OF_A_CONTROL: usize = 50;
const ROUNDS_VARIABLE: &str = "MONGO_LEASE_MONGOOSE_ROUNDS";
/// One in this many rounds no holder releases: the name stays taken until it expires.
const WALK_AWAY_EVERY: usize = 25;
/// One in this many rounds a process of the other side is killed while it holds.
const KILL_EVERY: usize = 100;
/// One in this many rounds a process of the other side releases a lock that it does not hold.
const LATE_RELEASE_EVERY: usize = 4;
/// How long a lease without a release stays taken.
const LEFT_TTL: Duration = Duration::from_millis(250);
/// The other side's processes. Each takes part in the rounds of most names.
const PROCESSES: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_against_mongoose_have_one_holder() {
    let rounds = std::env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |text| text.parse().unwrap());
    assert_is_clean(&contest("to the letter", Use::Exclusive, rounds).await, rounds);
}

/// Half of the names are used by readers, half by holders of permits.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_have_no_permit_beside_mongooses_lock() {
    let rounds = std::env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |text| text.parse().unwrap());
    let seen = contest("to the letter", Use::Shared, rounds).await;
    assert_is_clean(&seen, rounds);
    assert!(seen.together() > 0, "{}", seen.summary());
}

fn assert_is_clean(seen: &Tally, rounds: usize) {
    eprintln!("{}", seen.summary());
    assert!(seen.contested >= rounds);
    assert!(seen.two_at_once.is_empty(), "{:#?}", seen.two_at_once);
    assert_eq!(seen.lost_writes, 0, "what one holder wrote, another has not read");
    // Each side was sometimes first.
    let [rust, mongoose] = [Side::Rust, Side::Mongoose].map(|side| seen.first(side));
    assert!(rust > seen.rounds / 50 && mongoose > seen.rounds / 50, "{}", seen.summary());
}

/// The negative controls: the same contest detects a Mongoose program with a defect.
#[tokio::test(flavor = "multi_thread")]
async fn the_contest_finds_out_a_mongoose_that_ignores_the_expiry() {
    assert!(is_found_out("ignores the expiry", Use::Exclusive).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_a_mongoose_that_ignores_permits() {
    assert!(is_found_out("ignores the expiry", Use::Shared).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contest_finds_out_a_mongoose_that_releases_by_name_alone() {
    assert!(is_found_out("releases by name alone", Use::Exclusive).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contest_detects_a_mongoose_that_releases_permits() {
    assert!(is_found_out("releases by name alone", Use::Shared).await);
}

/// Whether a contest of no more rounds than the correct one's sees two holders at once.
async fn is_found_out(flavour: &'static str, how: Use) -> bool {
    for _ in 0..ROUNDS / ROUNDS_OF_A_CONTROL {
        let seen = contest(flavour, how, ROUNDS_OF_A_CONTROL).await;
        eprintln!("{flavour}: {}", seen.summary());
        if !seen.two_at_once.is_empty() {
            return true;
        }
    }
    false
}

/// The result of a contest.
#[derive(Default)]
struct Tally {
    rounds: usize,
    contested: usize,
    killed: usize,
    /// The first holder's side of each round with a grant.
    firsts: Vec<Side>,
    holds: Vec<Hold>,
    two_at_once: Vec<(Hold, Hold)>,
    /// Visits that the resource does not show.
    lost_writes: i64,
}

impl Tally {
    fn first(&self, side: Side) -> usize {
        self.firsts.iter().filter(|first| **first == side).count()
    }

    /// How many holds began while another of the same side went on.
    fn together(&self) -> usize {
        let beside = |one: &Hold, other: &Hold| {
            let is_same = one.name == other.name && one.side == other.side;
            is_same && other.from < one.from && one.from < other.to
        };
        let is_beside = |one: &&Hold| self.holds.iter().any(|other| beside(one, other));
        self.holds.iter().filter(is_beside).count()
    }

    fn summary(&self) -> String {
        let of = |side| self.holds.iter().filter(|hold| hold.side == side).count();
        format!(
            "{} rounds, {} of them contested; held {} times by Rust and {} by Mongoose, \
             first in {} and {}; {} processes killed; {} holds of one side together; \
             two at once {} times, {} writes lost",
            self.rounds,
            self.contested,
            of(Side::Rust),
            of(Side::Mongoose),
            self.first(Side::Rust),
            self.first(Side::Mongoose),
            self.killed,
            self.together(),
            self.two_at_once.len(),
            self.lost_writes,
        )
    }

    fn add(&mut self, holds: Vec<Hold>) {
        self.rounds += 1;
        self.contested += usize::from(is_contested(&holds));
        self.firsts.extend(holds.iter().min_by_key(|hold| hold.from).map(|hold| hold.side));
        self.holds.extend(holds);
    }
}

/// Rounds on several names at once, until this many were contested.
async fn contest(flavour: &'static str, how: Use, rounds: usize) -> Tally {
    let field = Arc::new(Field::new(flavour, how).await);
    let mut names = JoinSet::new();
    for number in 0..NAMES {
        names.spawn(field.clone().rounds_on(number, rounds.div_ceil(NAMES)));
    }
    let mut all = Tally::default();
    for seen in names.join_all().await {
        all.rounds += seen.rounds;
        all.contested += seen.contested;
        all.killed += seen.killed;
        all.firsts.extend(seen.firsts);
        all.holds.extend(seen.holds);
        all.lost_writes += seen.lost_writes;
    }
    all.two_at_once = two_at_once(&all.holds);
    all
}

/// How we use the names: the other program knows nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Exclusive,
    /// Names with even numbers for readers, the others for holders of one permit of two.
    Shared,
}

impl Use {
    /// The call for a name, and how many may hold it.
    fn acquire(self, leases: &LeaseManager, name: &str) -> (Acquire, usize) {
        let is_even = name.ends_with(['0', '2', '4', '6', '8']);
        match self {
            Use::Exclusive => (leases.acquire(name), 1),
            Use::Shared if is_even => (leases.acquire(name).shared(), 1_000),
            Use::Shared => (leases.semaphore(name, 2).acquire(), 2),
        }
    }
}

/// How the holders of a round end their leases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Release,
    WalkAway,
}

impl End {
    fn terms(self) -> NeighbourOptions {
        let ttl = if self == End::Release { LONG_TTL } else { LEFT_TTL };
        NeighbourOptions { ttl, wait: PATIENCE }
    }
}

/// All participants.
struct Field {
    database: TestDatabase,
    character: Character,
    how: Use,
    ours: [LeaseManager; 2],
    theirs: Vec<Neighbour>,
    visits: Collection<Document>,
}

impl Field {
    async fn new(flavour: &'static str, how: Use) -> Field {
        let database = migrated().await;
        let character = Character { flavour, ..Character::default() };
        let theirs =
            join_all((0..PROCESSES).map(|_| Neighbour::start_as(&database, character))).await;
        let one = builder(&database).build().await.unwrap();
        // Another service: a client of its own, and a local queue of its own.
        let client = Client::with_uri_str(Server::shared().uri()).await.unwrap();
        let other =
            LeaseManager::builder(&database.through(&client)).max_clock_skew(Duration::ZERO);
        let ours = [one, other.build().await.unwrap()];
        let visits = database.collection("visits");
        Field { database, character, how, ours, theirs, visits }
    }

    async fn start_one_more(&self) -> Neighbour {
        Neighbour::start_as(&self.database, self.character).await
    }

    async fn rounds_on(self: Arc<Self>, number: usize, contested: usize) -> Tally {
        let name = format!("name:{number}");
        self.visits.insert_one(doc! { "_id": &name, "count": 0_i64 }).await.unwrap();
        let mut seen = Tally::default();
        let mut visited = 0;
        while seen.contested < contested {
            assert!(seen.rounds < 4 * contested + 100, "no contest: {}", seen.summary());
            let round = seen.rounds + 1;
            let end =
                if round.is_multiple_of(WALK_AWAY_EVERY) { End::WalkAway } else { End::Release };
            let kills = round % KILL_EVERY == number;
            let doomed = if kills { Some(self.start_one_more().await) } else { None };
            let (ours, theirs, killed) = tokio::join!(
                join_all((0..2).map(|which| self.one_of_ours(which, &name, round, end))),
                join_all((0..2).map(|which| self.one_of_theirs(number + which, &name, round, end))),
                self.one_that_is_killed(doomed, &name),
            );
            seen.killed += usize::from(killed.is_some());
            let holds: Vec<Hold> = ours.into_iter().chain(theirs).flatten().collect();
            // Holders that are inside together only read.
            let writes = |hold: &&Hold| end == End::Release && hold.limit == 1;
            visited += holds.iter().filter(writes).count();
            seen.add(holds.into_iter().chain(killed).collect());
        }
        seen.lost_writes = i64::try_from(visited).unwrap() - self.visits(&name).await;
        seen
    }

    async fn one_of_ours(&self, which: usize, name: &str, round: usize, end: End) -> Option<Hold> {
        let wanted = clock::now();
        let terms = end.terms();
        let (asked, limit) = self.how.acquire(&self.ours[which], name);
        let asked = asked.ttl(terms.ttl).wait(terms.wait);
        // One waits in the queue, the other does so every second time. An attempt without an answer that ends the call
        // is no part of this, and so near to the end of a short ttl it could be one.
        let asks_once = which == 1 && round % 2 == 1 && end == End::Release;
        let lease = match asks_once {
            true => match asked.wait(Duration::ZERO).await {
                Err(Error::Busy(_)) => return None,
                granted => granted.unwrap(),
            },
            // A share that nobody releases must not be renewed either.
            false => asked.renew(limit == 1 || end == End::Release).await.unwrap(),
        };
        let from = clock::now();
        let mut to = clock::from_now(|| lease.remaining());
        match end {
            // A share cannot be detached. It is never dropped, and so it is not released.
            End::WalkAway if limit > 1 => std::mem::forget(lease),
            End::WalkAway => drop(lease.detach().await),
            End::Release => {
                match limit {
                    1 => self.visit(name).await,
                    _ => self.read(name).await,
                }
                to = clock::now().min(clock::from_now(|| lease.remaining()));
                lease.release().await.unwrap();
            }
        }
        Some(Hold { side: Side::Rust, name: name.to_owned(), wanted, from, to, limit })
    }

    async fn one_of_theirs(
        &self,
        whose: usize,
        name: &str,
        round: usize,
        end: End,
    ) -> Option<Hold> {
        let theirs = &self.theirs[whose % PROCESSES];
        let late_release = round.is_multiple_of(LATE_RELEASE_EVERY);
        let asked = match end {
            End::WalkAway => theirs.acquire(name, end.terms()).await,
            End::Release => theirs.hold(name, end.terms(), late_release).await,
        };
        let held = asked.granted.expect("granted before its patience ends");
        let (wanted, from, to) = (asked.wanted, held.from, held.until);
        Some(Hold { side: Side::Mongoose, name: name.to_owned(), wanted, from, to, limit: 1 })
    }

    /// A process that is killed by SIGKILL while it holds. Its lease goes on until it expires.
    async fn one_that_is_killed(&self, doomed: Option<Neighbour>, name: &str) -> Option<Hold> {
        let doomed = doomed?;
        let asked = doomed.acquire(name, End::WalkAway.terms()).await;
        doomed.kill().await;
        let held = asked.granted.expect("granted before its patience ends");
        let (wanted, from, to) = (asked.wanted, held.from, held.until);
        Some(Hold { side: Side::Mongoose, name: name.to_owned(), wanted, from, to, limit: 1 })
    }

    /// A holder's work: it reads a number, and writes that number plus one.
    async fn visit(&self, name: &str) {
        let count = self.visits(name).await + 1;
        let update = doc! { "$set": { "count": count } };
        self.visits.update_one(doc! { "_id": name }, update).await.unwrap();
    }

    /// The work of holders that are inside together: nobody writes meanwhile.
    async fn read(&self, name: &str) {
        let before = self.visits(name).await;
        let after = self.visits(name).await;
        let is_broken = self.character.flavour != "to the letter";
        assert!(is_broken || before == after, "{name} was {before}, and is {after}");
    }

    /// How many visits the resource shows. Node.js writes whole numbers in the shortest type.
    async fn visits(&self, name: &str) -> i64 {
        let found = self.visits.find_one(doc! { "_id": name }).await.unwrap().unwrap();
        let count = found.get("count").unwrap();
        count.as_i64().or(count.as_i32().map(i64::from)).unwrap()
    }
}
