//! The table: what a run has shown.

mod numbers;

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;

use numbers::{Numbers, Unknown, longest, middle};

use crate::arguments::Options;
use crate::check::{self, Evidence, Invariant, Violation};
use crate::clock::{MILLI, SECOND};
use crate::cluster::Failed;

/// Between these lines of a file the table is put; what else is in the file stays.
const BEGIN: &str = "<!-- made by the program: begin ";
const END: &str = "<!-- made by the program: end ";

/// The table of a run.
pub(crate) fn table(
    options: &Options,
    seed: u64,
    evidence: &Evidence,
    found: &[Violation],
) -> String {
    let numbers = Numbers::of(evidence);
    let mut rows = Rows::default();
    rows.add("seed, versions", format!("{seed}; {}", evidence.versions));
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let setting = format!(
        "{} workers, {} leases, allowance {} ms, entry life {} ms; {profile} profile",
        options.workers, options.names, options.allowance_ms, options.entry_life_ms
    );
    rows.add("workers at a time", setting);
    if let Some(control) = options.control {
        let rewritten = evidence.rewritten;
        rows.add("control", format!("`{}`, {rewritten} commands rewritten", control.name()));
    }
    rows.add("duration under fault", format!("{} s", numbers.faulted / SECOND));
    rows.add("acquires", calls(&numbers));
    rows.add(
        "grants",
        format!("{}; {} in the oplog by hand-on", numbers.grants, numbers.promotions),
    );
    rows.add("waits", numbers.waits);
    rows.add("renewals seen", numbers.renewals);
    rows.add("losses seen", numbers.losses);
    rows.add("releases", list(&numbers.releases));
    rows.add("leases dropped; workers died", format!("{}; {}", numbers.drops, numbers.deaths));
    rows.add("faults by kind", list(&numbers.faults));
    rows.add("acquires without an answer", unknown(numbers.unknown_acquires));
    rows.add("releases without an answer", unknown(numbers.unknown_releases));
    let freed = format!(
        "{} ms of {}; with faults meanwhile {} ms of {}",
        longest(&numbers.freed),
        numbers.freed.len(),
        longest(&numbers.freed_under_fault),
        numbers.freed_under_fault.len()
    );
    rows.add("longest time until an abandoned lease was free", freed);
    rows.add("largest overshoot of a deadline", format!("{} ms", numbers.overshoot / MILLI));
    let writes = format!(
        "{}; refused {}, of which {} by holders that knew of their loss",
        numbers.writes, numbers.refused, numbers.stale_refused
    );
    rows.add("writes to the resource", writes);
    let wrongly = found.iter().filter(|found| found.invariant == Invariant::Fence).count();
    rows.add("stale writes wrongly accepted", wrongly);
    rows.add("lines that went with an expired document", numbers.lines_lost);
    let lost = evidence.left.cursors.iter().filter(|cursor| check::is_lost(evidence, cursor));
    rows.add("cursors left to the server by the driver", lost.count());
    rows.add("memory of a worker at most", format!("{} MB", numbers.memory_peak_kb / 1024));
    let mut text = rows.0;
    pauses(&mut text, &numbers);
    violations(&mut text, found);
    text
}

/// Puts the table into a file: in the place of the one that is there, or as the whole of it. A control has its own.
pub(crate) fn write(path: &Path, options: &Options, table: &str) -> Result<(), Failed> {
    let failed = |error| Failed::at("the table's file", error);
    let which = options.control.map_or_else(|| "real".to_owned(), |control| control.name());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_its_own_section_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("torture-table-{}", std::process::id()));
        let arguments = <crate::arguments::Arguments as clap::Parser>::parse_from(["torture"]);
        let options = arguments.options;
        std::fs::write(&path, "before\n").unwrap();
        write(&path, &options, "one\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "behind\n").unwrap();
        write(&path, &options, "two\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("behind\n"), "{text}");
        assert!(text.contains("two\n") && !text.contains("one\n"), "{text}");
    }
}
