//! The table, on the terminal and in the documentation.

use std::fmt::Write as _;
use std::path::Path;

use mongo_lease_measure::{Extent, Outcome, Rounds, rewrite};

use crate::chart;

const HEAD: &str = "| what | beside | median (quartiles) | for orientation | goal |";

/// All measured figures.
pub(crate) struct Report {
    extent: Extent,
    rows: Vec<Row>,
    pub(crate) bars: Vec<chart::Bar>,
    pub(crate) lines: Vec<chart::Line>,
}

struct Row {
    what: String,
    beside: String,
    figure: String,
    goal: String,
    note: String,
}

impl Row {
    /// Whether this line of a table has the same subject.
    fn is_in(&self, line: &str) -> bool {
        line.strip_prefix("| ").and_then(|line| line.split_once(" |")).map(|it| it.0)
            == Some(&self.what)
    }
}

impl Report {
    pub(crate) fn new(extent: Extent) -> Report {
        Report { extent, rows: Vec::new(), bars: Vec::new(), lines: Vec::new() }
    }

    /// A ratio against the floor of the same rounds. `note` is for orientation.
    pub(crate) fn ratio(
        &mut self,
        what: &str,
        beside: &str,
        rounds: &Rounds,
        note: &str,
        goal: &str,
    ) {
        let ratio = rounds.ratio();
        self.bars.push(chart::Bar { what: what.to_owned(), ratio });
        self.row(what, beside, &format!("{ratio} x"), note, goal);
    }

    /// A figure that is counted.
    pub(crate) fn row(&mut self, what: &str, beside: &str, figure: &str, note: &str, goal: &str) {
        println!("{what:<46} {figure:<26} {note}");
        self.rows.push(Row {
            what: what.to_owned(),
            beside: beside.to_owned(),
            figure: figure.to_owned(),
            goal: goal.to_owned(),
            note: note.to_owned(),
        });
    }

    /// The table; rows of an older one that were not measured now stay.
    fn table(&self, older: &str) -> String {
        let mut text = format!(
            "{}, mongod of the testbed as a replica set of one, mongo-lease {}.\n\n\
             {HEAD}\n| --- | --- | --- | --- | --- |\n",
            self.extent.on_this_machine(),
            env!("CARGO_PKG_VERSION")
        );
        let is_measured = |line: &&str| self.rows.iter().any(|row| row.is_in(line));
        let older = older.lines().filter(|line| line.starts_with("| "));
        let older = older.filter(|line| *line != HEAD && !line.starts_with("| ---"));
        for line in older.filter(|line| !is_measured(line)) {
            let _ = writeln!(text, "{line}");
        }
        for Row { what, beside, figure, goal, note } in &self.rows {
            let _ = writeln!(text, "| {what} | {beside} | {figure} | {note} | {goal} |");
        }
        text
    }

    /// Writes the table between the page's markers, and the charts beside the page.
    pub(crate) fn write(&self, page: &Path) -> Outcome<()> {
        rewrite(page, |older| self.table(older))?;
        let folder = page.parent().unwrap_or(Path::new("."));
        if !self.bars.is_empty() {
            chart::bars(&folder.join("ratios.svg"), &self.bars)?;
        }
        if !self.lines.is_empty() {
            chart::lines(&folder.join("churn.svg"), &self.lines)?;
        }
        Ok(())
    }
}
