//! The table of a run's results.

mod beside;
mod controls;
mod numbers;

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;

use mongo_lease_checker::{self as checker, Evidence, Invariant, MILLI, Nanos, SECOND, Violation};

pub(crate) use beside::beside;
pub(crate) use controls::{ControlRow, controls};
use numbers::{Numbers, Unknown, longest, middle};

use crate::arguments::Options;
use crate::cluster::Failed;
use crate::gather::Gathered;
use crate::nemesis::{Choice, Nemesis};

/// The table stands between these lines of a file; the rest of the file stays.
const BEGIN: &str = "<!-- made by the program: begin ";
const END: &str = "<!-- made by the program: end ";

/// Which table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Exclusive leases alone.
    Real,
    /// Exclusive leases beside permits and shares.
    Shared,
    /// With clocks that were moved within the maximum clock skew.
    Clock,
    /// With clocks that were moved beyond it.
    ClockJump,
    Controls,
    /// The controls of permits and shares.
    SharedControls,
    /// Findings of other tools: the model, the fuzzing.
    Beside,
}

impl Section {
    /// The section of a run with these faults.
    pub(crate) fn of(options: &Options, choice: &Choice) -> Section {
        if choice.has(Nemesis::ClockJump) {
            Section::ClockJump
        } else if choice.has(Nemesis::Clock) {
            Section::Clock
        } else if options.shared_tasks > 0 {
            Section::Shared
        } else {
            Section::Real
        }
    }

    fn name(self) -> &'static str {
        match self {
            Section::Real => "real",
            Section::Shared => "shared",
            Section::Clock => "clock",
            Section::ClockJump => "clock-jump",
            Section::Controls => "controls",
            Section::SharedControls => "shared-controls",
            Section::Beside => "beside",
        }
    }
}

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
         shares, maximum clock skew {} ms, waiter ttl {} ms; {profile} profile",
        options.workers,
        options.tasks,
        options.names,
        options.shared_tasks,
        evidence.terms.max_clock_skew / MILLI,
        options.waiter_ttl_ms
    );
    rows.add("workers at a time", setting);
    let error = evidence.terms.clock_error / MILLI;
    if error > 0 {
        rows.add("a member's clock is off by at most", format!("{error} ms, either way"));
    }
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
    violations(&mut text, evidence, found);
    text
}

/// Puts a table into a file: in place of the former one, or at the end.
pub(crate) fn write(path: &Path, section: Section, table: &str) -> Result<(), Failed> {
    let failed = |error| Failed::at("the table's file", error);
    let which = section.name();
    let (begin, end) = (format!("{BEGIN}{which} -->"), format!("{END}{which} -->"));
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let section = format!("{begin}\n{table}{end}");
    let place = before.find(&begin).zip(before.find(&end));
    let after = match place {
        Some((from, to)) => format!("{}{section}{}", &before[..from], &before[to + end.len()..]),
        None => format!("{before}{section}\n"),
    };
    std::fs::write(path, after).map_err(failed)
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

fn violations(text: &mut String, evidence: &Evidence, found: &[Violation]) {
    text.push_str("\n| invariant | violations |\n| --- | --- |\n");
    for invariant in Invariant::ALL {
        let count = found.iter().filter(|found| found.invariant == invariant).count();
        let may = if evidence.terms.may_break(invariant) { ", and may be" } else { "" };
        let _written = writeln!(text, "| {} | {count}{may} |", invariant.words());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_its_own_section_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("torture-table-{}", std::process::id()));
        std::fs::write(&path, "before\n").unwrap();
        write(&path, Section::Real, "one\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "behind\n").unwrap();
        write(&path, Section::Clock, "other\n").unwrap();
        write(&path, Section::Real, "two\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let section = |which: &str, table: &str| {
            let (begin, end) = (format!("{BEGIN}{which} -->"), format!("{END}{which} -->"));
            format!("{begin}\n{table}\n{end}\n")
        };
        let (real, clock) = (section("real", "two"), section("clock", "other"));
        assert_eq!(text, format!("before\n{real}behind\n{clock}"));
    }
}
