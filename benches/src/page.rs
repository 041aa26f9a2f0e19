//! The tables and charts of the page.

use std::fmt::Write as _;
use std::path::Path;

use mongo_lease_measure::{Outcome, rewrite};

use crate::chart;
use crate::combine::{Combined, CombinedFigure};
use crate::figure::{Column, Figure};

/// How many runs the page's figures have to be of, at the least.
const RUNS_MIN: usize = 3;

/// Writes all tables between the page's markers, and the charts beside it. Nothing of an earlier writing stays.
pub(crate) fn write(page: &Path, combined: &Combined, all_cases: &[String]) -> Outcome<()> {
    rewrite(page, |_older| text(combined, all_cases))?;
    let folder = page.parent().unwrap_or(Path::new("."));
    let bars: Vec<&CombinedFigure> =
        combined.rows.iter().filter(|row| row.figure.is_drawn).collect();
    if !bars.is_empty() {
        chart::bars(&folder.join("ratios.svg"), &bars)?;
    }
    for section in combined.sections() {
        let rows = drawn_by_size(&combined.section(section));
        if !rows.is_empty() {
            chart::by_size(&folder.join(file_of(section)), section, &rows)?;
        }
    }
    Ok(())
}

/// All tables.
pub(crate) fn text(combined: &Combined, all_cases: &[String]) -> String {
    let mut text = head(combined, all_cases);
    if combined.rows.iter().any(|row| row.figure.is_drawn) {
        text += "\n![Each ratio beside its floor](ratios.svg)\n";
    }
    for section in combined.sections() {
        let rows = combined.section(section);
        let _ = write!(text, "\n### {section}\n\n");
        if rows.iter().any(|row| row.figure.column.is_some()) {
            text += &table_of_columns(&rows, combined.runs);
        } else {
            text += &table(&rows, combined.runs);
        }
        if !drawn_by_size(&rows).is_empty() {
            let _ = write!(text, "\n![{section}]({})\n", file_of(section));
        }
    }
    text
}

/// Says how many runs there are, on which machines, under which conditions, and how many goals they meet.
fn head(combined: &Combined, all_cases: &[String]) -> String {
    let Combined { conditions, runs, machines, .. } = combined;
    let mut text = String::new();
    let is_whole = conditions.is_release && !conditions.is_short && *runs >= RUNS_MIN;
    if !is_whole || !conditions.is_of_a_commit() {
        text += "**Preliminary figures**, which are not to be quoted: ";
    }
    let extent = if conditions.is_short { "short" } else { "whole" };
    let build = if conditions.is_release { "" } else { ", compiled without optimizations" };
    let several =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let _ = writeln!(
        text,
        "{} of the {extent} program on {} with {}, which the servers share; \
         MongoDB {}, mongo-lease {} (commit {}){build}.",
        several(*runs, "run"),
        several(*machines, "machine"),
        several(conditions.processors, "processor"),
        conditions.server,
        conditions.library,
        conditions.commit,
    );
    text += if *runs == 1 {
        "A range is that of the quartiles of the run's rounds.\n"
    } else {
        "Each figure is the median of the runs; its range is from the lowest to the highest run.\n"
    };
    let goals = combined.rows.iter().filter(|row| row.figure.goal.is_some()).count();
    let missed = combined.rows.iter().filter(|row| row.figure.misses_its_goal()).count();
    if goals > 0 {
        let met = goals - missed;
        let _ = writeln!(text, "Goals met: {met} of {goals}. A missed goal is marked.");
    }
    let missing: Vec<String> = all_cases
        .iter()
        .filter(|case| !combined.cases.contains(case))
        .map(|case| format!("`{case}`"))
        .collect();
    if !missing.is_empty() {
        let _ = write!(text, "\n**Not measured in these runs:** {}.\n", missing.join(", "));
    }
    text
}

/// A row for each figure.
fn table(rows: &[&CombinedFigure], runs: usize) -> String {
    let mut text = "| what | beside | median (range) | ours and the floor | goal |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for row in rows {
        let Figure { what, beside, absolute, goal, unit, .. } = &row.figure;
        let absolute = absolute.map_or_else(String::new, |absolute| absolute.text());
        let goal = goal.map_or_else(String::new, |goal| goal.text(*unit));
        let goal = if row.figure.misses_its_goal() { goal + ", **missed**" } else { goal };
        let figure = figure(row, runs);
        let _ = writeln!(text, "| {what} | {beside} | {figure} | {absolute} | {goal} |");
    }
    text
}

/// A row for each subject, with a column for each size or setting.
fn table_of_columns(rows: &[&CombinedFigure], runs: usize) -> String {
    let mut columns: Vec<&Column> = Vec::new();
    let mut subjects: Vec<&Figure> = Vec::new();
    for row in rows {
        let is_new = |it: &&Column| !columns.iter().any(|column| column.label == it.label);
        columns.extend(row.figure.column.as_ref().filter(is_new));
        if !subjects.iter().any(|subject| subject.is_same_row(&row.figure)) {
            subjects.push(&row.figure);
        }
    }
    if columns.iter().all(|column| column.size.is_some()) {
        let size = |column: &&Column| column.size.unwrap_or_default();
        columns.sort_by(|one, other| size(one).total_cmp(&size(other)));
    }
    let mut text = "| what | beside |".to_owned();
    for column in &columns {
        let _ = write!(text, " {} |", column.label);
    }
    text += "\n| --- | --- |";
    text += &" --- |".repeat(columns.len());
    text.push('\n');
    for subject in subjects {
        let _ = write!(text, "| {} | {} |", subject.what, subject.beside);
        for column in &columns {
            let is_there = |row: &&&CombinedFigure| {
                let its = row.figure.column.as_ref();
                row.figure.is_same_row(subject) && its.is_some_and(|it| it.label == column.label)
            };
            let cell = rows.iter().find(is_there);
            let cell = cell.map_or_else(|| "not measured".to_owned(), |row| cell_of(row, runs));
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}

/// As in the table of one column, and ours behind a ratio.
fn cell_of(row: &CombinedFigure, runs: usize) -> String {
    let ours = row.figure.absolute.map_or_else(String::new, |absolute| {
        format!("; {}{}", absolute.unit.number(absolute.ours), absolute.unit.name())
    });
    format!("{}{ours}", figure(row, runs))
}

/// The median, its range, and of how many runs it is where that is not all of them.
fn figure(row: &CombinedFigure, runs: usize) -> String {
    let CombinedFigure { figure, range: (low, high), runs: its } = row;
    let missing = if *its == runs { String::new() } else { format!(", {its} of {runs} runs") };
    if *its == 1 {
        return format!("{}{missing}", figure.text());
    }
    let unit = figure.unit;
    let (value, low, high) = (unit.number(figure.value), unit.number(*low), unit.number(*high));
    format!("{value} ({low} to {high}){}{missing}", unit.name())
}

/// The ratios that have a size: those are drawn.
fn drawn_by_size<'a>(rows: &[&'a CombinedFigure]) -> Vec<&'a CombinedFigure> {
    rows.iter().copied().filter(|row| row.figure.is_drawn_by_size()).collect()
}

/// The file of a section's chart.
fn file_of(section: &str) -> String {
    let lower = section.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|it| !it.is_empty());
    format!("{}.svg", words.collect::<Vec<_>>().join("-"))
}

#[cfg(test)]
mod tests {
    use mongo_lease_measure::{Extent, Round, Rounds};

    use super::{file_of, text};
    use crate::combine::Combined;
    use crate::figure::Figure;
    use crate::goal::Goal;
    use crate::run::Run;
    use crate::unit::Unit;

    fn run(figures: Vec<Figure>) -> Run {
        let mut run = Run::new(Extent::new(false), "6.0.5");
        run.conditions.is_release = true;
        run.conditions.commit = "1b82a1922d5a".to_owned();
        run.cases.push("alone".to_owned());
        run.figures = figures;
        run
    }

    fn rounds(ours: f64) -> Rounds {
        Rounds(vec![Round { ours, floor: 2.0 }])
    }

    fn ratio(what: &str, ours: f64) -> Figure {
        Figure::ratio(what, "a floor", &rounds(ours), Unit::Millis).goal(Goal::AtMost(1.15))
    }

    fn page(runs: &[Run]) -> String {
        let cases = ["alone".to_owned(), "many".to_owned()];
        text(&Combined::of(runs).unwrap(), &cases)
    }

    #[test]
    fn a_row_has_its_median_its_range_and_its_goal() {
        let runs = [2.0, 3.0, 2.2].map(|ours| run(vec![ratio("pair", ours)]));
        let page = page(&runs);
        let row = "| pair | a floor | 1.10 (1.00 to 1.50) x | 2.20 and 2.00 ms | at most 1.15 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("3 runs of the whole program on 1 machine"), "{page}");
        assert!(page.contains("(commit 1b82a1922d5a)"), "{page}");
        assert!(page.contains("Goals met: 1 of 1."), "{page}");
        assert!(page.contains("**Not measured in these runs:** `many`."), "{page}");
    }

    #[test]
    fn a_missed_goal_is_marked() {
        let few = Figure::ratio("rate", "a floor", &rounds(1.0), Unit::PerSecond);
        let free = Figure::counted("memory", 900.0, Unit::Bytes);
        let figures = vec![ratio("pair", 2.4), few.goal(Goal::AtLeast(0.87)), free];
        let page = page(&[run(figures)]);
        assert!(page.contains("| 2.40 and 2.00 ms | at most 1.15, **missed** |"), "{page}");
        assert!(page.contains("a second | at least 0.87, **missed** |"), "{page}");
        assert!(page.contains("| memory |  | 900 bytes |  |  |"), "{page}");
        assert!(page.contains("Goals met: 0 of 2."), "{page}");
    }

    #[test]
    fn runs_of_changed_sources_are_called_preliminary() {
        let runs = [2.0, 3.0, 2.2].map(|ours| {
            let mut run = run(vec![ratio("pair", ours)]);
            run.conditions.commit += "-dirty";
            run
        });
        assert!(page(&runs).starts_with("**Preliminary"));
    }

    #[test]
    fn fewer_than_three_runs_are_called_preliminary() {
        let a_run = || run(vec![ratio("pair", 2.0)]);
        assert!(page(&[a_run(), a_run()]).starts_with("**Preliminary"));
        assert!(page(&[a_run(), a_run(), a_run()]).starts_with("3 runs"));
    }

    #[test]
    fn a_size_that_is_missing_is_said_to_be() {
        let big = || ratio("pair", 4.0).at("100,000", Some(1e5));
        let small = ratio("pair", 2.0).at("1,000", Some(1e3));
        let other = ratio("list", 2.0).at("1,000", Some(1e3));
        let page = page(&[run(vec![big(), small, other]), run(vec![big()])]);
        assert!(page.contains("| what | beside | 1,000 | 100,000 |"), "{page}");
        let row = "| pair | a floor | 1.00 (1.00 to 1.00) x, 1 of 2 runs; 2.00 ms | \
                   2.00 (2.00 to 2.00) x; 4.00 ms |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("x, 1 of 2 runs; 2.00 ms | not measured |"), "{page}");
    }

    #[test]
    fn a_chart_is_named_after_its_section() {
        assert_eq!(file_of("Growth: other documents"), "growth-other-documents.svg");
    }
}
