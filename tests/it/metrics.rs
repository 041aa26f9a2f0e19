//! The metrics that `docs/observe.md` names, counted by the test's own recorder.

mod stopped;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use mongo_lease::{Acquire, Attempt};
use mongo_lease_testbed::FailCommand;

use crate::common::{TryOnce, builder, setup};
use crate::lent::lent_database;
use crate::patience::{Listener, locks};

/// The content of a scrape: each registered metric with its labels and its count, and each description.
#[derive(Clone, Default)]
struct Counts {
    counts: Arc<Mutex<BTreeMap<String, f64>>>,
    described: Arc<Mutex<BTreeMap<String, Description>>>,
}

/// Kind, unit, and text.
type Description = [String; 3];

struct Count {
    counts: Counts,
    key: String,
}

impl Count {
    fn add(&self, change: f64) {
        *self.counts.counts.lock().unwrap().entry(self.key.clone()).or_default() += change;
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).unwrap()));
    }
    fn absolute(&self, _value: u64) {
        panic!("counters only count up");
    }
}

impl GaugeFn for Count {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, _value: f64) {
        panic!("the gauge is shared by all managers");
    }
}

impl HistogramFn for Count {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "{} is not in seconds: {value}", self.key);
        self.add(1.0);
    }
}

impl Counts {
    fn count(&self, key: &Key) -> Arc<Count> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let key = format!("{}{{{}}}", key.name(), labels.join(","));
        let count = Count { counts: self.clone(), key };
        count.add(0.0);
        Arc::new(count)
    }

    fn describe(&self, kind: &str, key: &KeyName, unit: Option<Unit>, text: &str) {
        let unit = unit.as_ref().map(Unit::as_str).unwrap_or_default();
        let description = [kind, unit, text].map(str::to_owned);
        self.described.lock().unwrap().insert(key.as_str().to_owned(), description);
    }

    fn shown(&self) -> BTreeMap<String, f64> {
        self.counts.lock().unwrap().clone()
    }

    fn of(&self, metric: &str) -> f64 {
        self.shown()[&format!("mongo_lease_{metric}{{}}")]
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe("counter", &key, unit, &text);
    }
    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe("gauge", &key, unit, &text);
    }
    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe("histogram", &key, unit, &text);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.count(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.count(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.count(key))
    }
}

/// The rows of the table of metrics in `docs/observe.md`.
fn documented() -> BTreeMap<String, Description> {
    let page = read("docs/observe.md");
    let rows = page.lines().filter(|line| line.starts_with("| `mongo_lease_"));
    let cells = rows.map(|row| {
        let mut cells = row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).replace('`', ""));
        let mut next = || cells.next().expect("four cells");
        (next(), [next(), next(), next()])
    });
    cells.collect()
}

/// The reasons of a loss, from the page of the operators.
fn reasons() -> BTreeSet<String> {
    let page = read("docs/operators.md");
    let (_, table) = page.split_once("| `reason` of a loss |").expect("the table of reasons");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    rows.map(|row| row.split('`').nth(1).expect("a reason").to_owned()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[tokio::test]
async fn build_shows_every_metric_with_zero_and_describes_it() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (_database, leases) = setup().await;

    let documented = documented();
    assert_eq!(*counts.described.lock().unwrap(), documented);
    assert!(documented.len() > 9, "{documented:#?}");

    let reasons = reasons();
    assert!(reasons.len() > 5, "{reasons:?}");
    let lost = reasons.iter().map(|reason| format!("mongo_lease_lost_total{{reason={reason}}}"));
    let others = documented.keys().filter(|name| *name != "mongo_lease_lost_total");
    let expected: BTreeMap<String, f64> =
        others.map(|name| format!("{name}{{}}")).chain(lost).map(|key| (key, 0.0)).collect();
    assert_eq!(counts.shown(), expected);
    leases.shutdown().await;
}

#[tokio::test]
async fn the_gauge_of_polling_follows_the_change_stream() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    let held = holder.acquire("a").await.unwrap();
    // The first manager gets its stream again. The second one is gone while it polls.
    for comes_back in [true, false] {
        let leases = builder(&database).build().await.unwrap();
        let mut events = Listener::of(&leases);
        let fault = FailCommand::on(&["aggregate"]).times(1000).error_code(13);
        let fault = fault.enable(server.uri()).await;
        let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
        events.polling().await;
        assert_eq!(counts.of("polling"), 1.0);
        if comes_back {
            fault.disable().await;
            events.watching().await;
            assert_eq!(counts.of("polling"), 0.0);
            leases.shutdown().await;
        } else {
            leases.shutdown().await;
            fault.disable().await;
        }
        waiting.await.unwrap().unwrap_err();
        assert_eq!(counts.of("polling"), 0.0);
    }
    assert_eq!(counts.of("stream_failed_total"), 2.0);
    held.release().await.unwrap();
}

#[tokio::test]
async fn what_happens_is_counted_without_names() {
    // Every task of this test runs on this thread, and so under this recorder.
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (database, leases) = setup().await;

    // Of several permits, it is counted as one.
    let permits = leases.semaphore("secret-name:permits", 5).acquire().permits(3).await.unwrap();
    assert_eq!(counts.of("held"), 1.0);
    permits.renew().await.unwrap();
    permits.release().await.unwrap();
    let lease = leases.acquire("secret-name").await.unwrap();
    assert!(matches!(leases.try_acquire("secret-name").await.unwrap(), Attempt::Busy(_)));
    lease.renew().await.unwrap();
    assert_eq!(counts.of("held"), 1.0);
    // A second manager changes no count of the first.
    builder(&database).build().await.unwrap().shutdown().await;
    assert_eq!(counts.of("held"), 1.0);
    lease.release().await.unwrap();
    let robbed = leases.acquire("secret-name").await.unwrap();
    locks(&database).drop().await.unwrap();
    assert!(robbed.renew().await.is_err());
    drop(robbed);
    leases.shutdown().await;

    let mut counted = counts.shown();
    assert!(counted.keys().all(|key| !key.contains("secret-name")), "{counted:?}");
    counted.retain(|_, count| *count != 0.0);
    let expected = [
        ("granted_total{}", 3.0),
        ("lost_total{reason=removed}", 1.0),
        ("refused_total{}", 1.0),
        ("released_total{}", 2.0),
        ("renewed_total{}", 2.0),
        ("wait_seconds{}", 3.0),
    ];
    let expected = expected.map(|(key, count)| (format!("mongo_lease_{key}"), count));
    assert_eq!(counted, BTreeMap::from(expected));
}

#[tokio::test]
async fn a_refusal_under_a_smaller_limit_is_counted() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (_database, leases) = setup().await;

    let refused = async |what: &str, call: Acquire, expected: f64| {
        assert!(matches!(call.try_once().await.unwrap(), Attempt::Busy(_)), "{what}");
        assert_eq!(counts.of("smaller_limit_total"), expected, "{what}");
    };
    let held = leases.semaphore("a", 2).acquire().permits(2).await.unwrap();
    for (limit, count) in [(2, 0.0), (1, 0.0), (5, 1.0)] {
        refused(&format!("limit {limit}"), leases.semaphore("a", limit).acquire(), count).await;
    }
    held.release().await.unwrap();
    // An exclusive holder disagrees with nobody.
    let writer = leases.acquire("a").await.unwrap();
    refused("a reader", leases.acquire("a").shared(), 1.0).await;
    writer.release().await.unwrap();
    leases.shutdown().await;
}
