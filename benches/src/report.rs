//! The figures of the run that goes on.

use std::path::PathBuf;

use mongo_lease_measure::Outcome;

use crate::figure::Figure;
use crate::run::Run;

/// Prints each figure when it is measured, and saves all of them after each case.
pub(crate) struct Report {
    pub(crate) run: Run,
    section: &'static str,
    file: Option<PathBuf>,
}

impl Report {
    pub(crate) fn new(run: Run, file: Option<PathBuf>) -> Report {
        Report { run, section: "", file }
    }

    /// The heading of the figures that follow.
    pub(crate) fn section(&mut self, section: &'static str) {
        if self.section != section {
            println!("\n{section}");
        }
        self.section = section;
    }

    /// Takes a figure into the report.
    pub(crate) fn add(&mut self, figure: Figure) {
        let column = figure.column.as_ref().map_or("", |column| &column.label);
        let beside = if figure.beside.is_empty() { "" } else { " / " };
        let what = format!("{}{beside}{} {column}", figure.what, figure.beside);
        let absolute = figure.absolute.map_or_else(String::new, |absolute| absolute.text());
        if !figure.value.is_finite() {
            println!("  NOT MEASURED: {what} ({absolute})");
            return;
        }
        let missed = if figure.misses_its_goal() { ", misses its goal" } else { "" };
        println!("  {what:<76} {:<24} {absolute}{missed}", figure.text());
        self.run.figures.push(Figure { section: self.section.to_owned(), ..figure });
    }

    /// Notes that a case has been measured, and saves what there is.
    pub(crate) fn measured(&mut self, case: &str) -> Outcome<()> {
        self.run.cases.push(case.to_owned());
        self.file.as_ref().map_or(Ok(()), |file| self.run.save(file))
    }
}
