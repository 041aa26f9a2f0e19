//! The metrics that the operators' page names, counted by the test's own recorder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use mongo_lease::Attempt;

use crate::common::setup;

#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, f64>>>);

struct Count {
    counts: Counts,
    key: String,
}

impl Count {
    fn add(&self, change: f64) {
        *self.counts.0.lock().unwrap().entry(self.key.clone()).or_default() += change;
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
        Arc::new(Count { counts: self.clone(), key })
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
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
    let expected = expected.map(|(key, count)| (key.to_owned(), count)).into_iter().collect();
    assert_eq!(*counts.0.lock().unwrap(), expected);
}
