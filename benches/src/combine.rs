//! Several runs as one: medians, with the lowest and the highest run.

use crate::figure::{Absolute, Figure};
use crate::run::{Conditions, Run};

/// Several runs under the same conditions.
#[derive(Debug)]
pub(crate) struct Combined {
    pub(crate) conditions: Conditions,
    pub(crate) runs: usize,
    pub(crate) machines: usize,
    /// In the order of the first run, section by section.
    pub(crate) rows: Vec<CombinedFigure>,
    /// Cases that one of the runs has measured.
    pub(crate) cases: Vec<String>,
}

/// One figure of several runs.
#[derive(Clone, Debug)]
pub(crate) struct CombinedFigure {
    /// As the first run that has it tells it, but for the value and what is behind it: these are medians.
    pub(crate) figure: Figure,
    /// The lowest and the highest run.
    pub(crate) range: (f64, f64),
    /// How many runs have it.
    pub(crate) runs: usize,
}

impl Combined {
    /// Combines these runs, or says why they cannot be.
    pub(crate) fn of(runs: &[Run]) -> Result<Combined, String> {
        let first = runs.first().ok_or("no run to combine")?;
        if let Some(other) = runs.iter().find(|run| run.conditions != first.conditions) {
            let (one, other) = (&first.conditions, &other.conditions);
            return Err(format!("these runs were not alike:\n{one:?}\n{other:?}"));
        }
        if let Some(twice) = given_twice(runs) {
            return Err(format!("run {twice} is given twice"));
        }
        let mut rows: Vec<CombinedFigure> = Vec::new();
        let mut cases: Vec<String> = Vec::new();
        for run in runs {
            for figure in &run.figures {
                if !rows.iter().any(|row| row.figure.is_same(figure)) {
                    let place = place_in(&rows, &figure.section);
                    rows.insert(place, CombinedFigure::of(figure, runs));
                }
            }
            let new = run.cases.iter().filter(|case| !cases.contains(case));
            let new: Vec<String> = new.cloned().collect();
            cases.extend(new);
        }
        let mut machines: Vec<&str> = runs.iter().map(|run| run.machine.as_str()).collect();
        machines.sort_unstable();
        machines.dedup();
        let conditions = first.conditions.clone();
        Ok(Combined { conditions, runs: runs.len(), machines: machines.len(), rows, cases })
    }

    /// The headings, in order.
    pub(crate) fn sections(&self) -> Vec<&str> {
        let mut sections: Vec<&str> = self.rows.iter().map(|it| &*it.figure.section).collect();
        sections.dedup();
        sections
    }

    /// The rows below a heading.
    pub(crate) fn section(&self, section: &str) -> Vec<&CombinedFigure> {
        self.rows.iter().filter(|row| row.figure.section == section).collect()
    }
}

/// The id of a run that is given more than once.
fn given_twice(runs: &[Run]) -> Option<&str> {
    let mut ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    ids.sort_unstable();
    ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Behind the last row of the section.
fn place_in(rows: &[CombinedFigure], section: &str) -> usize {
    let last = rows.iter().rposition(|row| row.figure.section == section);
    last.map_or(rows.len(), |last| last + 1)
}

impl CombinedFigure {
    fn of(first: &Figure, runs: &[Run]) -> CombinedFigure {
        let same = |run: &Run| run.figures.iter().find(|it| it.is_same(first)).cloned();
        let all: Vec<Figure> = runs.iter().filter_map(same).collect();
        let values: Vec<f64> = all.iter().map(|it| it.value).collect();
        let absolutes: Vec<Absolute> = all.iter().filter_map(|it| it.absolute).collect();
        let absolute = absolutes.first().map(|it| Absolute {
            ours: median(absolutes.iter().map(|it| it.ours).collect()),
            floor: median(absolutes.iter().map(|it| it.floor).collect()),
            unit: it.unit,
        });
        let range = (
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        // One run has no spread but that of its rounds.
        let quartiles = if all.len() == 1 { first.quartiles } else { None };
        let figure = Figure { value: median(values), absolute, quartiles, ..first.clone() };
        CombinedFigure { figure, range, runs: all.len() }
    }
}

/// Of an even number, the middle of both in the middle.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
    let middle = figures.len() / 2;
    if figures.len().is_multiple_of(2) {
        f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
    } else {
        at(middle)
    }
}

#[cfg(test)]
mod tests {
    use mongo_lease_measure::{Extent, Round, Rounds};

    use super::{Combined, median};
    use crate::figure::Figure;
    use crate::run::Run;
    use crate::unit::Unit;

    fn run(figures: &[(&str, &str, f64)]) -> Run {
        let mut run = Run::new(Extent::new(false), "6.0.5");
        for (section, what, ours) in figures {
            let rounds = Rounds(vec![Round { ours: *ours, floor: 1.0 }]);
            let figure = Figure::ratio(what, "a floor", &rounds, Unit::Millis);
            run.figures.push(Figure { section: (*section).to_owned(), ..figure });
        }
        run
    }

    #[test]
    fn three_runs_give_their_median_and_their_range() {
        let runs = [("a", "pair", 1.3), ("a", "pair", 1.1), ("a", "pair", 1.2)];
        let combined = Combined::of(&runs.map(|figure| run(&[figure]))).unwrap();
        assert_eq!((combined.runs, combined.machines, combined.rows.len()), (3, 1, 1));
        let row = &combined.rows[0];
        assert_eq!((row.figure.value, row.range, row.runs), (1.2, (1.1, 1.3), 3));
        assert_eq!(row.figure.absolute.unwrap().ours, 1.2);
        assert_eq!(row.figure.quartiles, None);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_row_says_how_many_runs_have_it() {
        let runs = [run(&[("a", "pair", 1.0)]), run(&[("a", "pair", 1.0), ("a", "list", 2.0)])];
        let combined = Combined::of(&runs).unwrap();
        assert_eq!(combined.rows.iter().map(|row| row.runs).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn rows_of_later_runs_stand_in_their_section() {
        let runs = [
            run(&[("a", "pair", 1.0), ("b", "list", 1.0)]),
            run(&[("a", "losing", 1.0), ("c", "memory", 1.0)]),
        ];
        let combined = Combined::of(&runs).unwrap();
        let order: Vec<&str> = combined.rows.iter().map(|row| &*row.figure.what).collect();
        assert_eq!(order, ["pair", "losing", "list", "memory"]);
        assert_eq!(combined.sections(), ["a", "b", "c"]);
    }

    #[test]
    fn runs_under_other_conditions_are_refused() {
        let mut short = run(&[]);
        short.conditions.is_short = true;
        let error = Combined::of(&[run(&[]), short]).unwrap_err();
        assert!(error.contains("is_short: true"), "{error}");
        assert!(Combined::of(&[]).is_err());
    }

    #[test]
    fn runs_of_another_commit_are_refused() {
        let mut newer = run(&[]);
        newer.conditions.commit = "another".to_owned();
        let error = Combined::of(&[run(&[]), newer]).unwrap_err();
        assert!(error.contains("commit: \"another\""), "{error}");
    }

    #[test]
    fn one_run_given_twice_is_refused() {
        let (one, other) = (run(&[]), run(&[]));
        assert!(Combined::of(&[one.clone(), other.clone()]).is_ok());
        let error = Combined::of(&[one.clone(), other, one.clone()]).unwrap_err();
        assert!(error.contains(&one.id), "{error}");
    }

    #[test]
    fn two_machines_are_counted() {
        let mut elsewhere = run(&[]);
        elsewhere.machine = "elsewhere".to_owned();
        assert_eq!(Combined::of(&[run(&[]), elsewhere, run(&[])]).unwrap().machines, 2);
    }
}
