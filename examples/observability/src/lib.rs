//! Installs OpenTelemetry for the spans and a Prometheus recorder for the metrics, and makes something to see.

use std::error::Error;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use mongo_lease::LeaseManager;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

/// The upper bounds of the buckets in seconds, as the dashboard and the alerts assume some.
const WAITS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The recorder's settings. Without buckets it makes a summary of the wait, which cannot be added up over processes.
///
/// # Errors
///
/// If there are no buckets.
pub fn recorder() -> Result<PrometheusBuilder, Box<dyn Error>> {
    let wait = Matcher::Full("mongo_lease_wait_seconds".to_owned());
    Ok(PrometheusBuilder::new().set_buckets_for_metric(wait, &WAITS)?)
}

/// Exports the spans of this process into memory. A service uses the exporter of `opentelemetry-otlp` instead.
///
/// # Errors
///
/// If this process has a subscriber already.
pub fn export_spans() -> Result<InMemorySpanExporter, Box<dyn Error>> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("observability"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    // The spans of leases are at the level `debug`.
    let targets = Targets::new().with_target("mongo_lease", Level::DEBUG);
    let targets = targets.with_target("observability", Level::INFO);
    let subscriber = tracing_subscriber::registry().with(targets).with(layer);
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(exporter)
}

/// Acquires a lease within a span of the service's own, finds it busy, waits in vain, renews, releases, and loses one.
///
/// # Errors
///
/// If the database fails.
pub async fn use_leases(leases: &LeaseManager) -> Result<(), Box<dyn Error>> {
    let payment = async {
        let lease = leases.acquire("invoice:42").await?;
        assert!(leases.try_acquire("invoice:42").await?.granted().is_none(), "it is busy");
        let wait = Duration::from_millis(100);
        assert!(leases.acquire("invoice:42").wait(wait).await.is_err(), "it stays busy");
        lease.renew().await?;
        lease.release().await
    };
    payment.instrument(info_span!("pay_invoice")).await?;

    let lease = leases.acquire("report").await?;
    // As an operator does, with `mongo-lease release`.
    leases.release("report", lease.value()).await?;
    assert!(lease.renew().await.is_err(), "it is lost");
    Ok(())
}

/// A span in a few lines: its name, its status and its attributes.
#[must_use]
pub fn describe(span: &SpanData) -> String {
    let mut attributes: Vec<String> =
        span.attributes.iter().map(|it| format!("    {} = {}", it.key, it.value)).collect();
    attributes.sort();
    format!("{} ({:?}): {:?}\n{}", span.name, span.span_kind, span.status, attributes.join("\n"))
}
