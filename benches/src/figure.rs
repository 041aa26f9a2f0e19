//! One measured figure, as a run stores it.

use mongo_lease_measure::{Rounds, Spread};
use serde::{Deserialize, Serialize};

use crate::goal::Goal;
use crate::unit::Unit;

/// A figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The heading that it stands under. The report sets it.
    pub(crate) section: String,
    pub(crate) what: String,
    /// The floor, or whatever else it is compared with.
    pub(crate) beside: String,
    /// Its column, in a table with several.
    pub(crate) column: Option<Column>,
    pub(crate) value: f64,
    /// The quartiles of the rounds of this run, where it had rounds.
    pub(crate) quartiles: Option<(f64, f64)>,
    pub(crate) unit: Unit,
    pub(crate) absolute: Option<Absolute>,
    pub(crate) goal: Option<Goal>,
    /// Whether it has a bar in the chart of all ratios.
    pub(crate) is_drawn: bool,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) label: String,
    /// Its place on a chart's axis, where it is a size.
    pub(crate) size: Option<f64>,
}

/// Ours and the floor behind a ratio, for orientation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Absolute {
    pub(crate) ours: f64,
    pub(crate) floor: f64,
    pub(crate) unit: Unit,
}

impl Absolute {
    pub(crate) fn text(&self) -> String {
        let Absolute { ours, floor, unit } = self;
        format!("{} and {}{}", unit.number(*ours), unit.number(*floor), unit.name())
    }
}

impl Figure {
    /// The ratio of ours to a floor of the same rounds; `unit` is that of both.
    pub(crate) fn ratio(what: &str, beside: &str, rounds: &Rounds, unit: Unit) -> Figure {
        let Spread { low, median, high } = rounds.ratio();
        let absolute = Absolute { ours: rounds.ours(), floor: rounds.floor(), unit };
        let figure = Figure::counted(what, median, Unit::Ratio).beside(beside);
        Figure { quartiles: Some((low, high)), absolute: Some(absolute), ..figure }
    }

    /// The ratio of ours to a floor, where each was measured once.
    pub(crate) fn quotient(what: &str, beside: &str, ours: f64, floor: f64, unit: Unit) -> Figure {
        let figure = Figure::counted(what, ours / floor, Unit::Ratio).beside(beside);
        Figure { absolute: Some(Absolute { ours, floor, unit }), ..figure }
    }

    /// A figure without a floor.
    pub(crate) fn counted(what: &str, value: f64, unit: Unit) -> Figure {
        Figure {
            section: String::new(),
            what: what.to_owned(),
            beside: String::new(),
            column: None,
            value,
            quartiles: None,
            unit,
            absolute: None,
            goal: None,
            is_drawn: false,
        }
    }

    pub(crate) fn beside(self, beside: &str) -> Figure {
        Figure { beside: beside.to_owned(), ..self }
    }

    pub(crate) fn goal(self, goal: impl Into<Option<Goal>>) -> Figure {
        Figure { goal: goal.into(), ..self }
    }

    /// Whether it has a goal and misses it.
    pub(crate) fn misses_its_goal(&self) -> bool {
        self.goal.is_some_and(|goal| goal.is_missed_by(self.value, self.unit))
    }

    /// Into this column.
    pub(crate) fn at(self, label: &str, size: Option<f64>) -> Figure {
        Figure { column: Some(Column { label: label.to_owned(), size }), ..self }
    }

    /// With a bar in the chart of all ratios.
    pub(crate) fn drawn(self) -> Figure {
        Figure { is_drawn: true, ..self }
    }

    /// Whether both are the same row and column.
    pub(crate) fn is_same(&self, other: &Figure) -> bool {
        let label = |figure: &Figure| figure.column.as_ref().map(|it| it.label.clone());
        self.is_same_row(other) && label(self) == label(other)
    }

    /// Whether both are in the same row.
    pub(crate) fn is_same_row(&self, other: &Figure) -> bool {
        let row = |it: &Figure| (it.section.clone(), it.what.clone(), it.beside.clone());
        row(self) == row(other)
    }

    /// Whether a chart of its section shows it: a ratio at some size.
    pub(crate) fn is_drawn_by_size(&self) -> bool {
        self.unit == Unit::Ratio && self.column.as_ref().is_some_and(|it| it.size.is_some())
    }

    /// The value, with its quartiles where it has some.
    pub(crate) fn text(&self) -> String {
        let Figure { value, unit, quartiles, .. } = self;
        let spread = quartiles.map_or_else(String::new, |(low, high)| {
            format!(" ({} to {})", unit.number(low), unit.number(high))
        });
        format!("{}{spread}{}", unit.number(*value), unit.name())
    }
}
