//! The table of the metrics: name, kind, unit and description of each.
//!
//! The constants and the list of all are made from one table, so a metric without a description cannot be counted.

use ::metrics::Unit;

use crate::error::LostReason;

#[derive(Clone, Copy)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    kind: MetricKind,
    unit: Unit,
    description: &'static str,
}

#[derive(Clone, Copy)]
enum MetricKind {
    Counter,
    /// One counter for each of [`REASONS`].
    CounterByReason,
    Gauge,
    Histogram,
}

macro_rules! table {
    ($($constant:ident $name:literal $kind:ident $unit:ident $description:literal)*) => {
        $(pub(super) const $constant: Metric = Metric {
            name: $name,
            kind: MetricKind::$kind,
            unit: Unit::$unit,
            description: $description,
        };)*
        const ALL: &[Metric] = &[$($constant),*];
    };
}

// Names of counters end with `_total`, that of the histogram with its unit. `docs/observe.md` has the same table.
table! {
    GRANTED "mongo_lease_granted_total" Counter Count "Leases granted to this process"
    REFUSED "mongo_lease_refused_total" Counter Count
        "Attempts answered with another holder, also those of waiting calls"
    SMALLER_LIMIT "mongo_lease_smaller_limit_total" Counter Count
        "Attempts refused beside holders with a smaller limit than their own"
    WAIT "mongo_lease_wait_seconds" Histogram Seconds
        "Time from the call to the grant, of granted calls only"
    QUEUED "mongo_lease_queued_total" Counter Count "Calls that joined a lease's queue"
    HELD "mongo_lease_held" Gauge Count "Leases that this process holds now"
    RENEWED "mongo_lease_renewed_total" Counter Count "Confirmed renewals, one for each lease"
    RENEWAL_FAILED "mongo_lease_renewal_failed_total" Counter Count
        "Unconfirmed renewals, one for each lease and attempt"
    LOST "mongo_lease_lost_total" CounterByReason Count "Leases lost, by reason"
    RELEASED "mongo_lease_released_total" Counter Count "Leases given up by their holder"
    NOT_GIVEN_BACK "mongo_lease_not_given_back_total" Counter Count
        "Leases whose release in the background failed, and which expire"
    POLLING "mongo_lease_polling" Gauge Count
        "Managers whose change stream is broken, so that their waiting calls poll"
    STREAM_FAILED "mongo_lease_stream_failed_total" Counter Count
        "Times that the change stream failed, and waiting calls began to poll"
}

const REASON: &str = "reason";

/// The values of the label of [`LOST`].
const REASONS: [&str; 7] = [
    "not_renewed",
    "out_of_reach",
    "taken_over",
    "removed",
    "resumed",
    "ended_as_asked",
    "released",
];

/// Describes every metric and registers it with zero, so that a scrape shows it before its first event.
///
/// It changes no count: other managers of this process may count already.
pub(crate) fn register() {
    for Metric { name, kind, unit, description } in ALL.iter().copied() {
        match kind {
            MetricKind::Counter => {
                ::metrics::describe_counter!(name, unit, description);
                ::metrics::counter!(name).increment(0);
            }
            MetricKind::CounterByReason => {
                ::metrics::describe_counter!(name, unit, description);
                for reason in REASONS {
                    ::metrics::counter!(name, REASON => reason).increment(0);
                }
            }
            MetricKind::Gauge => {
                ::metrics::describe_gauge!(name, unit, description);
                ::metrics::gauge!(name).increment(0.0);
            }
            MetricKind::Histogram => {
                ::metrics::describe_histogram!(name, unit, description);
                let _ = ::metrics::histogram!(name);
            }
        }
    }
}

pub(super) fn count(metric: Metric, more: u64) {
    ::metrics::counter!(metric.name).increment(more);
}

pub(super) fn count_loss(reason: &LostReason) {
    ::metrics::counter!(LOST.name, REASON => reason_label(reason)).increment(1);
}

fn reason_label(reason: &LostReason) -> &'static str {
    let [not_renewed, out_of_reach, taken_over, removed, resumed, ended_as_asked, released] =
        REASONS;
    match reason {
        LostReason::NotRenewed { .. } => not_renewed,
        LostReason::OutOfReach { .. } => out_of_reach,
        LostReason::TakenOver { .. } => taken_over,
        LostReason::Removed => removed,
        LostReason::Resumed => resumed,
        LostReason::EndedAsAsked => ended_as_asked,
        LostReason::Released => released,
    }
}
