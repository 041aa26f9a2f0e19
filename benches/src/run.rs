//! A run's figures, and the file that keeps them.

use std::fs;
use std::path::Path;

use mongo_lease_measure::{Extent, Outcome, host};
use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// The figures of a run, and where they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) conditions: Conditions,
    /// The name of the machine.
    pub(crate) machine: String,
    /// The cases that were measured to their end.
    pub(crate) cases: Vec<String>,
    pub(crate) figures: Vec<Figure>,
}

/// The conditions that runs must have in common to be combined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conditions {
    pub(crate) is_short: bool,
    /// Whether the program was compiled with optimizations.
    pub(crate) is_release: bool,
    pub(crate) processors: usize,
    /// The version of mongod.
    pub(crate) server: String,
    /// The version of mongo-lease.
    pub(crate) library: String,
}

impl Run {
    /// A run on this machine, which has measured nothing yet.
    pub(crate) fn new(extent: Extent, server: &str) -> Run {
        let conditions = Conditions {
            is_short: extent.is_short(),
            is_release: !cfg!(debug_assertions),
            processors: host::processors(),
            server: server.to_owned(),
            library: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Run { conditions, machine: host::machine(), cases: Vec::new(), figures: Vec::new() }
    }

    /// Reads a saved run.
    pub(crate) fn read(path: &Path) -> Outcome<Run> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Run::of_text(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Writes it to a file, in place of an earlier one.
    pub(crate) fn save(&self, path: &Path) -> Outcome<()> {
        Ok(fs::write(path, self.text()?)?)
    }

    fn text(&self) -> Outcome<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    fn of_text(text: &str) -> Result<Run, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use mongo_lease_measure::{Extent, Round, Rounds};

    use super::Run;
    use crate::figure::{Figure, Unit};

    #[test]
    fn a_saved_run_is_read_as_it_was() {
        let mut run = Run::new(Extent::new(true), "6.0.5");
        let rounds = Rounds(vec![Round { ours: 1.5, floor: 1.25 }]);
        let ratio = Figure::ratio("a pair", "a bare pair", &rounds, Unit::Millis).goal("1.15");
        run.figures.push(ratio.at("1,000", Some(1e3)).drawn());
        run.figures.push(Figure::counted("memory", 560.0, Unit::Bytes));
        run.cases.push("alone".to_owned());
        assert_eq!(Run::of_text(&run.text().unwrap()).unwrap(), run);
    }

    #[test]
    fn a_file_that_is_no_run_is_refused() {
        let error = Run::of_text("{\"figures\": []}").unwrap_err();
        assert!(error.to_string().contains("missing field"), "{error}");
    }
}
