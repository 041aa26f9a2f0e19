//! The spans as OpenTelemetry exports them, and the metrics as Prometheus scrapes them.

use std::collections::BTreeMap;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::{Server, TestDatabase};
use observability::{export_spans, recorder, use_leases};
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;

async fn manager() -> (TestDatabase, LeaseManager) {
    let database = Server::shared().database().await;
    let builder = LeaseManager::builder(&database).owner("example").ensure_indexes(true);
    let leases = builder.build().await.expect("a manager");
    (database, leases)
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    let text = |it: &opentelemetry::KeyValue| (it.key.to_string(), it.value.to_string());
    span.attributes.iter().map(text).collect()
}

#[tokio::test]
async fn spans_have_names_attributes_parent_and_status() {
    let exporter = export_spans().expect("no other subscriber");
    let (database, leases) = manager().await;
    use_leases(&leases).await.expect("the tour");
    leases.shutdown().await;
    // The other test has this subscriber too, and a database of its own.
    let of_ours = |span: &SpanData| {
        attributes(span).get("db.namespace").is_some_and(|name| name == database.name())
    };
    let (spans, others): (Vec<_>, Vec<_>) =
        exporter.get_finished_spans().expect("spans").into_iter().partition(of_ours);
    let parent = spans[0].parent_span_id;
    let payment = others.iter().find(|span| span.span_context.span_id() == parent);
    let payment = payment.expect("the parent");
    assert_eq!(payment.name, "pay_invoice");

    let ok = |name, outcome, lease| (name, outcome, lease, None);
    let failed = |name, outcome, lease, kind| (name, outcome, lease, Some(kind));
    let expected = [
        ok("mongo_lease.acquire", "granted", "invoice:42"),
        ok("mongo_lease.acquire", "busy", "invoice:42"),
        failed("mongo_lease.acquire", "timeout", "invoice:42", "wait_timeout"),
        ok("mongo_lease.renew", "renewed", "invoice:42"),
        ok("mongo_lease.release", "released", "invoice:42"),
        ok("mongo_lease.acquire", "granted", "report"),
        failed("mongo_lease.renew", "lost", "report", "lost"),
    ];
    let shown: Vec<BTreeMap<String, String>> = spans.iter().map(attributes).collect();
    let found = spans.iter().zip(&shown).map(|(span, attributes)| {
        let text = |key: &str| attributes.get(key).map(String::as_str);
        let (outcome, lease) = (text("mongo_lease.outcome"), text("lease.name"));
        (&*span.name, outcome.unwrap_or_default(), lease.unwrap_or_default(), text("error.type"))
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);

    let token = &shown[0]["lease.token"];
    assert!(token.parse::<mongo_lease::Token>().is_ok(), "{token}");
    for (span, attributes) in spans.iter().zip(&shown) {
        assert_eq!(span.span_kind, SpanKind::Client);
        for (key, value) in [
            ("db.system.name", "mongodb"),
            ("db.namespace", database.name()),
            ("db.collection.name", "locks"),
        ] {
            assert_eq!(attributes[key], value, "{}", span.name);
        }
        assert!(attributes.keys().all(|key| !key.starts_with("otel.")), "{attributes:?}");
        match (&span.status, attributes.get("error.type")) {
            (Status::Unset, None) => {}
            (Status::Error { description }, Some(_)) => {
                assert!(description.starts_with("lease \""), "{description}");
            }
            other => panic!("{}: {other:?}", span.name),
        }
        let is_child = span.parent_span_id == payment.span_context.span_id();
        assert_eq!(is_child, attributes["lease.name"] == "invoice:42", "{}", span.name);
    }
    for at in [3, 4] {
        assert_eq!(&shown[at]["lease.token"], token, "{}", spans[at].name);
    }
    let events: Vec<&str> = spans[0].events.iter().map(|event| &*event.name).collect();
    assert!(events.contains(&"lease granted"), "{events:?}");
}

/// The samples of a scrape: name with labels, and value.
fn samples(scrape: &str) -> BTreeMap<&str, &str> {
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' ')).collect()
}

#[tokio::test]
async fn a_scrape_before_the_first_lease_shows_every_metric() {
    let recorder = recorder().expect("buckets").build_recorder();
    let handle = recorder.handle();
    // Every task of this test runs on this thread, and so under this recorder.
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let (_database, leases) = manager().await;
    let before = handle.render();
    let page = include_str!("../../../../docs/observe.md");
    let rows = page.lines().filter(|line| line.starts_with("| `mongo_lease_"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row.len() == 4).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let name = row[0].trim_matches(['|', ' ', '`']);
        let text = row[3].trim_end_matches([' ', '|']);
        assert!(before.contains(&format!("# HELP {name} {text}\n")), "{name}: {before}");
        assert!(before.contains(&format!("# TYPE {name} {}\n", row[1])), "{name}: {before}");
        let is_it =
            |line: &str| line.split(['{', ' ']).next().is_some_and(|it| it.starts_with(name));
        assert!(samples(&before).keys().any(|line| is_it(line)), "no sample of {name}: {before}");
    }
    assert!(samples(&before).values().all(|value| *value == "0"), "{before}");
    assert_eq!(samples(&before)["mongo_lease_lost_total{reason=\"taken_over\"}"], "0");

    use_leases(&leases).await.expect("the tour");
    leases.shutdown().await;
    let after = handle.render();
    for (name, value) in [
        ("mongo_lease_granted_total", "2"),
        ("mongo_lease_lost_total{reason=\"removed\"}", "1"),
        ("mongo_lease_held", "0"),
        ("mongo_lease_wait_seconds_count", "2"),
        ("mongo_lease_wait_seconds_bucket{le=\"+Inf\"}", "2"),
    ] {
        assert_eq!(samples(&after)[name], value, "{name}: {after}");
    }
}
