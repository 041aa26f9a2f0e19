//! The table of the controls.

use mongo_lease_checker::{Invariant, Violation};
use std::fmt::Write;

use crate::control::Control;

/// The result of a control.
pub(crate) struct ControlRow {
    pub(crate) control: Control,
    pub(crate) seed: u64,
    /// When the last required invariant was broken, in milliseconds after the start of the workers.
    pub(crate) found_after: Option<u64>,
    pub(crate) found: Vec<Violation>,
    /// How many commands were changed on the wire.
    pub(crate) rewritten: u64,
}

/// A row for each control. A run ends as soon as it has found all required violations, so the numbers are those until
/// then.
pub(crate) fn controls(rows: &[&ControlRow]) -> String {
    let mut text = "| control, seed | faults | commands changed | must break | found after | \
         violations until then |\n| --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for ControlRow { control, seed, found_after, found, rewritten } in rows {
        let must: Vec<_> = control.shows().iter().map(|one| one.words()).collect();
        let after = found_after.map_or("NOT FOUND".to_owned(), |millis| {
            format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
        });
        let _written = writeln!(
            text,
            "| `{}`, {seed} | {} | {rewritten} | {} | {after} | {} |",
            control.name(),
            control.nemeses(),
            must.join("; "),
            counts(found),
        );
    }
    text
}

fn counts(found: &[Violation]) -> String {
    let count = |invariant| found.iter().filter(|found| found.invariant == invariant).count();
    let counts = Invariant::ALL.map(|invariant| (invariant, count(invariant)));
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    let some: Vec<_> = some.map(|(invariant, count)| format!("{invariant:?} {count}")).collect();
    some.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_that_was_not_found_is_told_from_one_that_was() {
        let found = |invariant| Violation::new(invariant, 1, String::new());
        let found = vec![found(Invariant::Removal), found(Invariant::Removal)];
        let control = Control::ReleaseByName;
        let one = ControlRow { control, seed: 7, found_after: Some(2_340), found, rewritten: 5 };
        let control = Control::OpenResource;
        let other =
            ControlRow { control, seed: 7, found_after: None, found: Vec::new(), rewritten: 0 };
        let text = controls(&[&one, &other]);
        assert!(text.contains("| `release-by-name`, 7 | stop-worker | 5 | no lease"), "{text}");
        assert!(text.contains("| 2.3 s | Removal 2 |"), "{text}");
        assert!(text.contains("| NOT FOUND |  |"), "{text}");
    }
}
