//! The table of a run's results.

mod numbers;

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use mongo_lease_checker::{self as checker, Invariant, MILLI, Nanos, SECOND, Violation};

use numbers::{Numbers, Unknown, longest, middle};

use crate::arguments::Options;
use crate::gather::Gathered;

/// The table of a run.
pub(crate) fn table(
    options: &Options,
    seed: u64,
    gathered: &Gathered,
    found: &[Violation],
) -> String {
    let Gathered { evidence, versions, .. } = gathered;
    let numbers = Numbers::of(evidence);
    let mut rows = Rows::default();
    rows.add("seed, versions", format!("{seed}; {versions}"));
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let setting = format!(
        "{} workers, {} calls of each at a time for {} exclusive leases and {} for permits and \
         shares, waiter ttl {} ms; {profile} profile",
        options.workers, options.tasks, options.names, options.shared_tasks, options.waiter_ttl_ms
    );
    rows.add("workers at a time", setting);
    rows.add("duration under fault", format!("{} s", numbers.faulted / SECOND));
    rows.add("acquires", calls(&numbers));
    rows.add(
        "grants",
        format!("{}; {} hand-offs in the oplog", numbers.grants, numbers.promotions),
    );
    rows.add("grants by limit; 1,000 is a reader's", list(&numbers.by_limit));
    rows.add("waits", numbers.waits);
    rows.add("renewals seen", numbers.renewals);
    rows.add("losses seen", numbers.losses);
    rows.add("releases", list(&numbers.releases));
    rows.add("leases dropped; workers died", format!("{}; {}", numbers.drops, numbers.deaths));
    rows.add("transactions under leases", list(&numbers.transactions));
    rows.add("faults by kind", list(&numbers.faults));
    rows.add("acquires without an answer", unknown(numbers.unknown_acquires));
    rows.add("releases without an answer", unknown(numbers.unknown_releases));
    let freed = longest_of(&numbers.freed, &numbers.freed_under_fault);
    rows.add("longest time until an abandoned lease was free", freed);
    let gaps = longest_of(&numbers.gaps, &numbers.gaps_under_fault);
    rows.add("longest time in which a first waiter waited although it fitted", gaps);
    rows.add("largest overshoot of a deadline", format!("{} ms", numbers.overshoot / MILLI));
    let writes = format!(
        "{}; refused {}, of which {} by holders that knew of their loss",
        numbers.writes, numbers.refused, numbers.stale_refused
    );
    rows.add("writes to the resource", writes);
    let wrongly = found.iter().filter(|found| found.invariant == Invariant::Fence).count();
    rows.add("stale writes wrongly accepted", wrongly);
    rows.add("queues removed with an expired document", numbers.lines_lost);
    let lost = evidence.left.cursors.iter().filter(|cursor| checker::is_lost(evidence, cursor));
    rows.add("cursors left to the server by the driver", lost.count());
    rows.add("memory of a worker at most", format!("{} MB", numbers.memory_peak_kb / 1024));
    let mut text = rows.0;
    pauses(&mut text, &numbers);
    violations(&mut text, found);
    text
}

#[derive(Default)]
struct Rows(String);

impl Rows {
    fn add(&mut self, what: &str, value: impl Display) {
        if self.0.is_empty() {
            self.0.push_str("| what | |\n| --- | --- |\n");
        }
        let _written = writeln!(self.0, "| {what} | {value} |");
    }
}

fn calls(numbers: &Numbers) -> String {
    format!("{}; without a lease: {}", numbers.acquires, list(&numbers.endings))
}

fn list(counts: &BTreeMap<impl Display, usize>) -> String {
    let each: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    each.join(", ")
}

fn longest_of(times: &[Nanos], under_fault: &[Nanos]) -> String {
    format!(
        "{} ms of {}; with faults meanwhile {} ms of {}",
        longest(times),
        times.len(),
        longest(under_fault),
        under_fault.len()
    )
}

fn unknown(unknown: Unknown) -> String {
    let Unknown { nothing, given_back, expired } = unknown;
    let total = nothing + given_back + expired;
    format!(
        "{total}; in truth nothing {nothing}, ended by a later command {given_back}, \
         ran out {expired}"
    )
}

fn pauses(text: &mut String, numbers: &Numbers) {
    text.push_str("\n| fault, alone | times | longest time without a grant: p50 | max |\n");
    text.push_str("| --- | --- | --- | --- |\n");
    for (kind, times) in &numbers.pauses {
        let (middle, longest) = (middle(times), longest(times));
        let _written = writeln!(text, "| {kind} | {} | {middle} ms | {longest} ms |", times.len());
    }
}

fn violations(text: &mut String, found: &[Violation]) {
    text.push_str("\n| invariant | violations |\n| --- | --- |\n");
    for invariant in Invariant::ALL {
        let count = found.iter().filter(|found| found.invariant == invariant).count();
        let _written = writeln!(text, "| {} | {count} |", invariant.words());
    }
}
