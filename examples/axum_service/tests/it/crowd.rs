//! 200 clients and two processes of the service, one of which is killed midway.
//!
//! It runs for 4 s, for 20 s with `MONGO_LEASE_LONG=1`, or for the number of seconds in `AXUM_SERVICE_CROWD_SECONDS`,
//! and on a busy machine until each lease was granted once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mongo_lease_testbed::Server;
use mongo_lease_tower::http::{Method, StatusCode};
use tokio::task::JoinSet;

use crate::client::{Answer, Client};
use crate::service::Service;

const CLIENTS: usize = 200;
const KEYS: usize = 20;
const TTL: Duration = Duration::from_secs(2);
/// The maximum clock skew, which the server adds to a ttl.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);
/// For a busy machine: how late a client may send its request.
const SLACK: Duration = Duration::from_secs(27);

/// How long the crowd stays at most for a lease that was not granted yet.
const LONGER: Duration = Duration::from_secs(30);

/// A span of work under a lease, by the clock of this machine.
#[derive(Clone, Debug)]
struct Held {
    key: String,
    from_us: u128,
    to_us: u128,
    token: u64,
}

/// The observations of one client.
#[derive(Default)]
struct Tally {
    statuses: BTreeMap<u16, usize>,
    held: Vec<Held>,
    /// How often the state of a lease became uncertain: by a 503, or a broken connection. The call may have been
    /// granted the lease, which then lasts for its ttl.
    doubts: usize,
    broken: usize,
}

/// The addresses of the service.
struct Room {
    addresses: [String; 2],
    /// The process that is killed. A client whose connection breaks uses the other one.
    victim_is_dead: AtomicBool,
    next: AtomicUsize,
    /// The leases that were granted.
    granted: Mutex<HashSet<String>>,
}

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros()
}

fn token(answer: &Answer) -> u64 {
    answer.body["token"].as_str().expect("a token").parse().expect("a number")
}

impl Room {
    /// Alternates between the two; after the first has died, always the second.
    fn address(&self) -> &str {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % 2;
        let is_dead = self.victim_is_dead.load(Ordering::Acquire);
        &self.addresses[if is_dead { 1 } else { turn }]
    }

    /// Whether the crowd stays, which is to end at this time.
    fn is_open(&self, end: Instant) -> bool {
        let now = Instant::now();
        let is_all = || self.granted.lock().unwrap().len() == 2 * KEYS;
        now < end || now < end + LONGER && !is_all()
    }
}

struct Visitor {
    client: Client,
    place: Arc<Room>,
    seen: Tally,
}

impl Visitor {
    /// Repeats the request until it is answered: the process may have been killed.
    async fn ask(&mut self, method: Method, path: &str) -> Answer {
        loop {
            let address = self.place.address().to_owned();
            match self.client.try_ask(method.clone(), &address, path, None).await {
                Ok(answer) => {
                    *self.seen.statuses.entry(answer.status.as_u16()).or_default() += 1;
                    if answer.status == StatusCode::SERVICE_UNAVAILABLE {
                        self.seen.doubts += 1;
                    }
                    return answer;
                }
                Err(error) => {
                    let is_dead = self.place.victim_is_dead.load(Ordering::Acquire);
                    assert!(is_dead && address == self.place.addresses[0], "{address}: {error:?}");
                    self.seen.broken += 1;
                    self.seen.doubts += 1;
                }
            }
        }
    }

    fn saw(&mut self, held: Held) {
        self.place.granted.lock().unwrap().insert(held.key.clone());
        self.seen.held.push(held);
    }

    async fn pay(&mut self, key: usize) {
        let path = format!("/invoices/{key}/payment?work_ms=3");
        let paid = self.ask(Method::POST, &path).await;
        if paid.status == StatusCode::OK {
            let us = |field: &str| paid.body[field].as_u64().map(u128::from).expect("a time");
            let (from_us, to_us) = (us("fromUs"), us("toUs"));
            let key = format!("invoice {key}");
            self.saw(Held { key, from_us, to_us, token: token(&paid) });
        }
    }

    async fn lock(&mut self, key: usize, id: &str) {
        let path = format!("/lock/{key}/{id}");
        let asked = Instant::now();
        let doubts = self.seen.doubts;
        let asking = format!("{path}?ttl_ms={}", TTL.as_millis());
        let taken = self.ask(Method::POST, &asking).await;
        if taken.status != StatusCode::OK {
            return;
        }
        let from_us = now_us();
        // The work: a query of the lock.
        let look = self.ask(Method::GET, &format!("/lock/{key}")).await;
        if asked.elapsed() < TTL {
            let held = look.status == StatusCode::OK && look.body["held"] == true;
            assert!(held || look.status == StatusCode::SERVICE_UNAVAILABLE, "{look:?}");
            let to_us = now_us();
            let token = token(&taken);
            self.saw(Held { key: format!("lock {key}"), from_us, to_us, token });
        }
        let released = self.ask(Method::DELETE, &path).await;
        // The lock may have expired on a busy machine, and an unanswered release may have been applied.
        let is_sure = asked.elapsed() < TTL && doubts == self.seen.doubts;
        assert!(released.status != StatusCode::CONFLICT || !is_sure, "lost: {released:?}");
    }
}

/// Checks that holds of one lease never overlap, and that tokens rise.
fn check_exclusion(all: &mut [Held]) {
    all.sort_by(|a, b| (&a.key, a.from_us).cmp(&(&b.key, b.from_us)));
    for pair in all.windows(2).filter(|pair| pair[0].key == pair[1].key) {
        assert!(pair[0].to_us <= pair[1].from_us, "two holders: {pair:?}");
        assert!(pair[0].token < pair[1].token, "tokens out of order: {pair:?}");
    }
}

/// After the crowd, each lease becomes free once its last grant has expired.
async fn everything_is_free(client: &Client, address: &str) {
    let gone = Instant::now();
    for key in 0..KEYS {
        let lock = format!("/lock/{key}/the-last");
        for path in [&lock, &format!("/invoices/{key}/payment?work_ms=0")] {
            while client.ask(Method::POST, address, path).await.status != StatusCode::OK {
                let waited = gone.elapsed();
                assert!(waited < TTL + MAX_CLOCK_SKEW + SLACK, "{path} is stuck for {waited:?}");
            }
        }
    }
}

/// No client ends before the middle, except by a failed assertion.
async fn until_the_middle(clients: &mut JoinSet<Tally>, middle: Instant) {
    if let Ok(Some(ended)) = tokio::time::timeout_at(middle.into(), clients.join_next()).await {
        panic!("a client has ended: {:?}", ended.err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_clients_and_a_kill_cause_no_double_or_stuck_lock() {
    let is_long = std::env::var_os("MONGO_LEASE_LONG").is_some_and(|value| value == "1");
    let seconds = std::env::var("AXUM_SERVICE_CROWD_SECONDS").ok();
    let usual = if is_long { 20 } else { 4 };
    let seconds = seconds.map_or(usual, |seconds| seconds.parse().expect("a number of seconds"));
    let database = Server::shared().database().await;
    let victim = Service::start(&database, TTL).await;
    let survivor = Service::start(&database, TTL).await;
    let place = Arc::new(Room {
        addresses: [victim.address.clone(), survivor.address.clone()],
        victim_is_dead: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        granted: Mutex::default(),
    });
    let started = Instant::now();
    let end = started + Duration::from_secs(seconds);
    let client = Client::new();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let place = Arc::clone(&place);
        let mut visitor = Visitor { client: client.clone(), place, seen: Tally::default() };
        clients.spawn(async move {
            let mut round = 0;
            while visitor.place.is_open(end) {
                let key = (number / 2 + round) % KEYS;
                match number % 2 {
                    0 => visitor.pay(key).await,
                    _ => visitor.lock(key, &format!("client-{number}-{round}")).await,
                }
                round += 1;
            }
            visitor.seen
        });
    }
    until_the_middle(&mut clients, started + Duration::from_secs(seconds) / 2).await;
    // Set the flag before the kill: a client whose connection breaks then sees it.
    place.victim_is_dead.store(true, Ordering::Release);
    victim.kill();

    let mut all = Vec::new();
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    let mut broken = 0;
    while let Some(seen) = clients.join_next().await {
        let seen = seen.expect("no client has failed");
        all.extend(seen.held);
        broken += seen.broken;
        for (status, count) in seen.statuses {
            *statuses.entry(status).or_default() += count;
        }
    }
    check_exclusion(&mut all);
    let granted: BTreeSet<&str> = all.iter().map(|held| held.key.as_str()).collect();
    assert_eq!(granted.len(), 2 * KEYS, "not every lease was ever granted: {granted:?}");
    eprintln!("{statuses:?}, {} held, {broken} broken", all.len());
    let known = [200, 409, 503];
    assert!(statuses.keys().all(|status| known.contains(status)), "{statuses:?}");
    everything_is_free(&client, &survivor.address).await;
    survivor.terminate();
    let (status, said) = survivor.end().await;
    assert!(status.success(), "{status}: {said:?}");
}
