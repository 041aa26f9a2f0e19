//! Both programs at once, on the same names, through whole lives of leases.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Client, Collection};
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
    let seen = contest("to the letter", rounds).await;
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
    assert!(is_found_out("ignores the expiry").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contest_finds_out_a_mongoose_that_releases_by_name_alone() {
    assert!(is_found_out("releases by name alone").await);
}

/// Whether a contest of no more rounds than the correct one's sees two holders at once.
async fn is_found_out(flavour: &'static str) -> bool {
    for _ in 0..ROUNDS / ROUNDS_OF_A_CONTROL {
        let seen = contest(flavour, ROUNDS_OF_A_CONTROL).await;
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

    fn summary(&self) -> String {
        let of = |side| self.holds.iter().filter(|hold| hold.side == side).count();
        format!(
            "{} rounds, {} of them contested; held {} times by Rust and {} by Mongoose, \
             first in {} and {}; {} processes killed; two at once {} times, {} writes lost",
            self.rounds,
            self.contested,
            of(Side::Rust),
            of(Side::Mongoose),
            self.first(Side::Rust),
            self.first(Side::Mongoose),
            self.killed,
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
async fn contest(flavour: &'static str, rounds: usize) -> Tally {
    let field = Arc::new(Field::new(flavour).await);
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
    ours: [LeaseManager; 2],
    theirs: Vec<Neighbour>,
    visits: Collection<Document>,
}

impl Field {
    async fn new(flavour: &'static str) -> Field {
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
        Field { database, character, ours, theirs, visits }
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
            visited += if end == End::Release { holds.len() } else { 0 };
            seen.add(holds.into_iter().chain(killed).collect());
        }
        seen.lost_writes = i64::try_from(visited).unwrap() - self.visits(&name).await;
        seen
    }

    async fn one_of_ours(&self, which: usize, name: &str, round: usize, end: End) -> Option<Hold> {
        let wanted = clock::now();
        let terms = end.terms();
        let asked = self.ours[which].acquire(name).ttl(terms.ttl).wait(terms.wait);
        // One waits in the queue, the other does so every second time. An attempt without an answer that ends the call
        // is no part of this, and so near to the end of a short ttl it could be one.
        let asks_once = which == 1 && round % 2 == 1 && end == End::Release;
        let lease = match asks_once {
            true => asked.try_once().await.unwrap().granted()?,
            false => asked.await.unwrap(),
        };
        let from = clock::now();
        let mut to = clock::from_now(|| lease.remaining());
        match end {
            End::WalkAway => drop(lease.detach().await),
            End::Release => {
                self.visit(name).await;
                to = clock::now().min(clock::from_now(|| lease.remaining()));
                lease.release().await.unwrap();
            }
        }
        Some(Hold { side: Side::Rust, name: name.to_owned(), wanted, from, to })
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
        Some(Hold { side: Side::Mongoose, name: name.to_owned(), wanted, from, to })
    }

    /// A process that is killed by SIGKILL while it holds. Its lease goes on until it expires.
    async fn one_that_is_killed(&self, doomed: Option<Neighbour>, name: &str) -> Option<Hold> {
        let doomed = doomed?;
        let asked = doomed.acquire(name, End::WalkAway.terms()).await;
        doomed.kill().await;
        let held = asked.granted.expect("granted before its patience ends");
        let (wanted, from, to) = (asked.wanted, held.from, held.until);
        Some(Hold { side: Side::Mongoose, name: name.to_owned(), wanted, from, to })
    }

    /// A holder's work: it reads a number, and writes that number plus one.
    async fn visit(&self, name: &str) {
        let count = self.visits(name).await + 1;
        let update = doc! { "$set": { "count": count } };
        self.visits.update_one(doc! { "_id": name }, update).await.unwrap();
    }

    /// How many visits the resource shows. Node.js writes whole numbers in the shortest type.
    async fn visits(&self, name: &str) -> i64 {
        let found = self.visits.find_one(doc! { "_id": name }).await.unwrap().unwrap();
        let count = found.get("count").unwrap();
        count.as_i64().or(count.as_i32().map(i64::from)).unwrap()
    }
}
