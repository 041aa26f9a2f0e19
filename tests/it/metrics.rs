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
use mongo_lease::Attempt;
use mongo_lease_testbed::FailCommand;

use crate::common::{TryOnce, builder, setup};
use crate::lent::lent_database;
use crate::patience::Listener;

/// The content of a scrape: each registered metric with its labels and its count, and each description.
#[derive(Clone, Default)]
struct Counts {
    counts: Arc<Mutex<BTreeMap<String, f64>>>,
    described: Arc<Mutex<BTreeMap<String, Described>>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Described {
    kind: &'static str,
    unit: Option<Unit>,
    text: String,
}

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

    fn describe(&self, kind: &'static str, key: &KeyName, unit: Option<Unit>, text: &str) {
        let described = Described { kind, unit, text: text.to_owned() };
        self.described.lock().unwrap().insert(key.as_str().to_owned(), described);
    }

    fn shown(&self) -> BTreeMap<String, f64> {
        self.counts.lock().unwrap().clone()
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

/// The rows of the page's table of metrics: name, kind and unit, description.
fn documented() -> BTreeMap<String, [String; 3]> {
    let rows = page().into_iter().filter(|row| row[0].starts_with("mongo_lease_"));
    rows.map(|[name, kind, unit, text]| (name, [kind, unit, text])).collect()
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

/// The first four cells of each row of `docs/observe.md`.
fn page() -> Vec<[String; 4]> {
    let page = read("docs/observe.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| {
        row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).replace('`', "")).collect()
    });
    cells.filter_map(|cells: Vec<String>| cells.first_chunk::<4>().cloned()).collect()
}

#[tokio::test]
async fn build_shows_every_metric_with_zero_and_describes_it() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (_database, leases) = setup().await;

    let documented = documented();
    let described = counts.described.lock().unwrap().clone();
    let names = |it: &BTreeMap<String, _>| it.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&described), documented.keys().cloned().collect::<Vec<_>>());
    assert!(described.len() > 9, "{described:#?}");
    for (name, Described { kind, unit, text }) in &described {
        let unit = unit.as_ref().map(Unit::as_str).unwrap_or_default();
        assert_eq!([*kind, unit, text], documented[name], "{name}");
    }

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
async fn a_second_manager_changes_no_count_of_the_first() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (database, leases) = setup().await;
    let held = leases.acquire("a").await.unwrap();
    let before = counts.shown();
    assert_eq!((before["mongo_lease_granted_total{}"], before["mongo_lease_held{}"]), (1.0, 1.0));
    let second = builder(&database).build().await.unwrap();
    assert_eq!(counts.shown(), before);
    second.shutdown().await;
    held.release().await.unwrap();
    leases.shutdown().await;
}

#[tokio::test]
async fn the_gauge_of_polling_follows_the_change_stream() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    let held = holder.acquire("a").await.unwrap();
    let polling = || counts.shown()["mongo_lease_polling{}"];
    // The first manager gets its stream again. The second one is gone while it polls.
    for comes_back in [true, false] {
        let leases = builder(&database).build().await.unwrap();
        let mut events = Listener::of(&leases);
        let fault = FailCommand::on(&["aggregate"]).times(1000).error_code(13);
        let fault = fault.enable(server.uri()).await;
        let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
        events.polling().await;
        assert_eq!(polling(), 1.0);
        if comes_back {
            fault.disable().await;
            events.watching().await;
            assert_eq!(polling(), 0.0);
            leases.shutdown().await;
        } else {
            leases.shutdown().await;
            fault.disable().await;
        }
        waiting.await.unwrap().unwrap_err();
        assert_eq!(polling(), 0.0);
    }
    assert_eq!(counts.shown()["mongo_lease_stream_failed_total{}"], 2.0);
    held.release().await.unwrap();
}

#[tokio::test]
async fn what_happens_is_counted_without_names() {
    // Every task of this test runs on this thread, and so under this recorder.
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (database, leases) = setup().await;

    let lease = leases.acquire("secret-name").await.unwrap();
    assert!(matches!(leases.try_acquire("secret-name").await.unwrap(), Attempt::Busy(_)));
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    let robbed = leases.acquire("secret-name").await.unwrap();
    database.collection::<mongodb::bson::Document>("locks").drop().await.unwrap();
    assert!(robbed.renew().await.is_err());
    drop(robbed);
    leases.shutdown().await;

    let expected = [
        ("mongo_lease_granted_total{}", 2.0),
        ("mongo_lease_held{}", 0.0),
        ("mongo_lease_lost_total{reason=removed}", 1.0),
        ("mongo_lease_refused_total{}", 1.0),
        ("mongo_lease_released_total{}", 1.0),
        ("mongo_lease_renewed_total{}", 1.0),
        ("mongo_lease_wait_seconds{}", 2.0),
    ];
    let shown = counts.shown();
    for (key, count) in expected {
        assert_eq!(shown.get(key), Some(&count), "{key}");
    }
    let others: Vec<_> =
        shown.iter().filter(|(key, _)| expected.iter().all(|it| it.0 != *key)).collect();
    assert!(others.iter().all(|(_, count)| **count == 0.0), "{others:?}");
    assert!(shown.keys().all(|key| !key.contains("secret-name")), "{shown:?}");
}

#[tokio::test]
async fn a_refusal_under_a_smaller_limit_is_counted() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (_database, leases) = setup().await;

    let held = leases.semaphore("a", 2).acquire().permits(2).await.unwrap();
    for (limit, count) in [(2, 0.0), (1, 0.0), (5, 1.0)] {
        let refused = leases.semaphore("a", limit).acquire().try_once().await.unwrap();
        assert!(matches!(refused, Attempt::Busy(_)));
        assert_eq!(counts.shown()["mongo_lease_smaller_limit_total{}"], count, "{limit}");
    }
    held.release().await.unwrap();
    // An exclusive holder disagrees with nobody.
    let writer = leases.acquire("a").await.unwrap();
    let reader = leases.acquire("a").shared().try_once().await.unwrap();
    assert!(matches!(reader, Attempt::Busy(_)));
    assert_eq!(counts.shown()["mongo_lease_smaller_limit_total{}"], 1.0);
    writer.release().await.unwrap();
    leases.shutdown().await;
}

#[tokio::test]
async fn a_lease_of_several_permits_is_counted_as_one() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let (_database, leases) = setup().await;

    let of_three = leases.semaphore("a", 5).acquire().permits(3).await.unwrap();
    let of_two = leases.semaphore("a", 5).acquire().permits(2).await.unwrap();
    let refused = leases.semaphore("a", 5).acquire().try_once().await.unwrap();
    assert!(matches!(refused, Attempt::Busy(_)));
    assert_eq!(counts.shown()["mongo_lease_held{}"], 2.0);
    of_three.renew().await.unwrap();
    of_three.release().await.unwrap();
    of_two.release().await.unwrap();
    leases.shutdown().await;

    let expected = [
        ("mongo_lease_granted_total{}", 2.0),
        ("mongo_lease_refused_total{}", 1.0),
        ("mongo_lease_released_total{}", 2.0),
        ("mongo_lease_renewed_total{}", 1.0),
        ("mongo_lease_wait_seconds{}", 2.0),
    ];
    for (key, count) in counts.shown() {
        let expected = expected.iter().find(|it| it.0 == key).map_or(0.0, |it| it.1);
        assert_eq!(count, expected, "{key}");
    }
}
