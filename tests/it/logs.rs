//! Spans and events carry the lease's name and token, and never its value.

mod causes;
mod memory;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use mongo_lease_testbed::{Server, command};
use mongo_lease_tower::http::{Request, Response};
use mongo_lease_tower::{LeaseLayer, key};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};
use tracing::Instrument;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use tracing_core::span::Current;

use mongo_lease::{LeaseManager, LostReason, MemoryStore};

use crate::common::{SHORT_TTL, setup};
use crate::patience::until;
use crate::secrets;

/// Writes down every span and event, a line each. A span's id is its place in the list of spans.
#[derive(Clone, Default)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<Mutex<Vec<&'static Metadata<'static>>>>,
    entered: Arc<Mutex<Vec<Id>>>,
    /// Spans of targets that begin so are filtered out.
    without: Option<&'static str>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Lines {
    fn write(&self, start: &str, record: impl FnOnce(&mut Line)) {
        let mut line = Line(start.to_owned());
        record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    /// The lines since the last call.
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    /// Those of them that begin so, without that.
    fn taken_with(&self, start: &str) -> Vec<String> {
        let lines = self.taken();
        lines.iter().filter_map(|it| it.strip_prefix(start)).map(str::to_owned).collect()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !self.without.is_some_and(|it| metadata.is_span() && metadata.target().starts_with(it))
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.write(span.metadata().name(), |line| span.record(line));
        let mut spans = self.spans.lock().unwrap();
        spans.push(span.metadata());
        Id::from_u64(spans.len() as u64)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        self.write("recorded", |line| values.record(line));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level();
        self.write(&format!("event {level}"), |line| event.record(line));
    }
    fn enter(&self, span: &Id) {
        self.entered.lock().unwrap().push(span.clone());
    }
    fn exit(&self, _: &Id) {
        self.entered.lock().unwrap().pop();
    }
    fn current_span(&self) -> Current {
        match self.entered.lock().unwrap().last() {
            Some(id) => {
                let number = usize::try_from(id.into_u64()).unwrap();
                Current::new(id.clone(), self.spans.lock().unwrap()[number - 1])
            }
            None => Current::none(),
        }
    }
}

/// Set in the process that the test starts.
const ALONE: &str = "MONGO_LEASE_TEST_TRACING";

/// The lines of this test, which then goes on in a process of its own, and `None` in the one that starts that. Every
/// task of the test runs on this thread, and so under its subscriber.
///
/// The `tracing` crate remembers for the whole process which callsites have a subscriber, and beside other tests, whose
/// threads have none, it remembers wrongly.
async fn alone(test: &str, lines: Lines) -> Option<(Lines, DefaultGuard)> {
    if std::env::var_os(ALONE).is_some() {
        return Some(under(lines));
    }
    let mut alone = process_for(test);
    // The server that the tests share: it starts no other.
    alone.env("MONGO_LEASE_TESTBED_URI", Server::shared().uri());
    assert_passes(alone).await;
    None
}

/// The same for a test without a server.
async fn alone_in_memory(test: &str) -> Option<(Lines, DefaultGuard)> {
    if std::env::var_os(ALONE).is_some() {
        return Some(under(Lines::default()));
    }
    assert_passes(process_for(test)).await;
    None
}

fn under(lines: Lines) -> (Lines, DefaultGuard) {
    (lines.clone(), tracing::subscriber::set_default(lines))
}

fn process_for(test: &str) -> tokio::process::Command {
    let mut alone = tokio::process::Command::from(command(std::env::current_exe().unwrap()));
    alone.args(["--exact", &format!("logs::{test}")]).env(ALONE, "1");
    alone
}

async fn assert_passes(mut alone: tokio::process::Command) {
    let output = alone.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn spans_and_events_have_name_and_token_but_never_the_value() {
    let test = "spans_and_events_have_name_and_token_but_never_the_value";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let (database, leases) = setup().await;
    let lease = leases.acquire("job").await.unwrap();
    let token = format!("lease.token={}", lease.token().unwrap());
    let value = lease.value().to_owned();
    lease.renew().await.unwrap();
    lease.release().await.unwrap();

    let lines = lines.taken();
    let assert_has = |parts: &[&str]| {
        let is_it = |line: &String| parts.iter().all(|part| line.contains(part));
        assert!(lines.iter().any(is_it), "{parts:?}: {lines:#?}");
    };
    let namespace = format!("db.namespace=\"{}\"", database.name());
    for (span, token) in [("acquire", ""), ("renew", &token), ("release", &token)] {
        let begin = format!("mongo_lease.{span} otel.kind=\"client\" db.system.name=\"mongodb\"");
        let collection = "db.collection.name=\"locks\"";
        assert_has(&[&begin, &namespace, collection, "lease.name=\"job\"", token]);
    }
    for event in ["lease granted", "lease renewed", "lease released"] {
        assert_has(&[event, "lease.name=\"job\"", &token]);
    }
    let recorded: Vec<&str> = lines.iter().filter_map(|it| it.strip_prefix("recorded ")).collect();
    let outcome = |outcome: &str| format!("mongo_lease.outcome=\"{outcome}\"");
    let outcomes = ["granted", "renewed", "released"].map(outcome);
    assert_eq!(recorded, [&token, &outcomes[0], &outcomes[1], &outcomes[2]], "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains(&value)), "a value was written: {lines:#?}");
}

#[tokio::test]
async fn no_password_and_no_value_is_logged_whatever_goes_wrong() {
    let test = "no_password_and_no_value_is_logged_whatever_goes_wrong";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let shown = secrets::everything_shown().await;
    let lines = lines.taken();
    shown.assert_no_text_has_a_password();
    // The events of a user without privileges, and of a server that does not answer.
    for event in ["no change stream", "not renewed", "could not be released", "lease granted"] {
        assert!(lines.iter().any(|line| line.contains(event)), "no event {event}: {lines:#?}");
    }
    // The span of a refused call has the server's code.
    assert!(lines.iter().any(|it| it == "recorded db.response.status_code=13"), "{lines:#?}");
    for line in &lines {
        secrets::assert_hidden("a line of the log", line);
        for value in &shown.values {
            assert!(!line.contains(value), "a value was written: {line}");
        }
    }
}

/// A manager in memory.
async fn in_memory() -> LeaseManager {
    LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_as_it_was_asked_to_is_no_error() {
    let test = "a_lease_that_ends_as_it_was_asked_to_is_no_error";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let leases = in_memory().await;
    let capped = leases.acquire("capped").max_hold(SHORT_TTL).await.unwrap();
    let once = leases.acquire("once").ttl(SHORT_TTL).renew(false).await.unwrap();
    for lease in [capped, once] {
        assert_eq!(lease.lost().await, LostReason::EndedAsAsked);
    }
    let taken = leases.acquire("taken").await.unwrap();
    leases.release("taken", taken.value()).await.unwrap();
    taken.renew().await.unwrap_err();
    let lines = lines.taken();
    let of = |level: &str| -> Vec<_> { lines.iter().filter(|it| it.starts_with(level)).collect() };
    let ended = of("event INFO");
    assert!(ended.len() == 2 && ended.iter().all(|it| it.contains("lease ended")), "{lines:#?}");
    assert!(matches!(of("event ERROR")[..], [it] if it.contains("\"taken\"")), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_lease_is_no_error_of_its_span_and_a_timeout_is() {
    let test = "a_busy_lease_is_no_error_of_its_span_and_a_timeout_is";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let leases = in_memory().await;
    let held = leases.acquire("job").await.unwrap();
    let recorded = || lines.taken_with("recorded ");
    recorded();
    assert!(leases.try_acquire("job").await.unwrap().granted().is_none());
    leases.acquire("job").wait(Duration::ZERO).await.unwrap_err();
    assert_eq!(recorded(), ["mongo_lease.outcome=\"busy\""; 2]);
    let timeout = leases.acquire("job").wait(Duration::from_secs(3)).await.unwrap_err();
    let failed = |outcome: &str, kind: &str, text: String| {
        [
            format!("mongo_lease.outcome=\"{outcome}\""),
            format!("error.type=\"{kind}\""),
            "otel.status_code=\"ERROR\"".to_owned(),
            format!("otel.status_description={text}"),
        ]
    };
    assert_eq!(recorded(), failed("timeout", "wait_timeout", timeout.to_string()));
    let invalid = leases.acquire("").await.unwrap_err();
    assert_eq!(recorded(), failed("failed", "invalid_name", invalid.to_string()));
    leases.release("job", held.value()).await.unwrap();
    let lost = held.renew().await.unwrap_err();
    assert_eq!(recorded(), failed("lost", "lost", lost.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_span_of_the_callers_own_keeps_its_token() {
    // Filters out this crate's spans, as a level does that is above theirs.
    let lines = Lines { without: Some("mongo_lease"), ..Lines::default() };
    let test = "a_span_of_the_callers_own_keeps_its_token";
    let Some((lines, _guard)) = alone(test, lines).await else { return };
    let leases = in_memory().await;
    let mine = tracing::info_span!("mine", lease.token = tracing::field::Empty);
    let held = leases.acquire("job").into_future().instrument(mine.clone()).await.unwrap();
    held.release().instrument(mine).await.unwrap();
    let lines = lines.taken();
    assert!(lines.iter().any(|line| line.starts_with("mine")), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.starts_with("recorded")), "{lines:#?}");
}

/// Clients choose the paths, and must not fill the log.
#[tokio::test(start_paused = true)]
async fn paths_that_do_not_fit_the_route_are_one_error_a_minute() {
    let test = "paths_that_do_not_fit_the_route_are_one_error_a_minute";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let id = key::path_parameter("/api/invoices/{id}/pay", "id").unwrap();
    let layer = LeaseLayer::new(&leases, id);
    let handled = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let errors = async |paths: &[&str]| {
        for path in paths {
            // A router clones the layer for each route.
            let service = layer.clone().layer(handled);
            let _ = service.oneshot(Request::get(*path).body(()).unwrap()).await;
        }
        lines.taken_with("event ERROR")
    };
    let first = errors(&["/api/invoices/42/pay", "/invoices/42/pay", "/wp-login.php"]).await;
    assert_eq!(first.len(), 1, "{first:?}");
    for part in ["\"/invoices/42/pay\"", "\"/api/invoices/{id}/pay\"", "`nest`"] {
        assert!(first[0].contains(part), "{first:?}");
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    let second = errors(&["/invoices/43/pay", "/invoices/44/pay"]).await;
    assert_eq!(second.len(), 1, "{second:?}");
    assert!(second[0].contains("/invoices/43/pay"), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_build_without_a_server_soon_says_what_it_waits_for() {
    let test = "a_build_without_a_server_soon_says_what_it_waits_for";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let said = async || {
        let lines = lines.lines.lock().unwrap();
        lines.iter().find(|line| line.contains("no server has answered yet")).cloned()
    };
    let store = MemoryStore::new();
    let hang = store.hang();
    let started = Instant::now();
    let line = tokio::select! {
        built = LeaseManager::in_memory(&store).build() => panic!("{built:?}"),
        line = until("the line is written", said) => line,
    };
    assert!(started.elapsed() <= Duration::from_secs(2), "{line}");
    for part in ["event WARN", "db.namespace=\"memory\"", "build_timeout_ms=35000", "build()"] {
        assert!(line.contains(part), "{line}");
    }
    drop(hang);
}
