//! The units of figures.

use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// Ours to the floor.
    Ratio,
    Millis,
    Micros,
    Bytes,
    PerSecond,
    Commands,
    /// Anything else, whose name stands in the row.
    Count,
}

impl Unit {
    /// A number of this unit, without its name.
    pub(crate) fn number(self, value: f64) -> String {
        match self {
            Unit::Millis if value >= 100.0 => format!("{value:.0}"),
            Unit::Ratio | Unit::Millis => format!("{value:.2}"),
            Unit::Micros | Unit::Commands => format!("{value:.1}"),
            Unit::Bytes | Unit::PerSecond | Unit::Count => format!("{value:.0}"),
        }
    }

    /// Its name behind a number, with a space before it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Ratio => " x",
            Unit::Millis => " ms",
            Unit::Micros => " µs",
            Unit::Bytes => " bytes",
            Unit::PerSecond => " a second",
            Unit::Commands | Unit::Count => "",
        }
    }
}
