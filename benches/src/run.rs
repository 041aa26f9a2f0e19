//! A run's figures, and the file that keeps them.

use std::fs;
use std::path::Path;
use std::process::Command;

use mongo_lease_measure::{Extent, Outcome, host};
use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// The figures of a run, and where they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// A random number, which tells it from all other runs.
    pub(crate) id: String,
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
    /// The commit of its sources, with `-dirty` behind it where files were changed; or [`UNKNOWN`].
    pub(crate) commit: String,
}

/// In place of a commit that git does not tell.
const UNKNOWN: &str = "unknown";

impl Conditions {
    /// Whether the commit says which code was measured.
    pub(crate) fn is_of_a_commit(&self) -> bool {
        self.commit != UNKNOWN && !self.commit.ends_with("-dirty")
    }
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
            commit: commit().unwrap_or_else(|| UNKNOWN.to_owned()),
        };
        Run {
            id: format!("{:016x}", fastrand::u64(..)),
            conditions,
            machine: host::machine(),
            cases: Vec::new(),
            figures: Vec::new(),
        }
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

/// The commit of this program's sources as they are now. None without git, or outside of a repository.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let told = git.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    (told.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use mongo_lease_measure::{Extent, Round, Rounds};

    use super::{Run, UNKNOWN};
    use crate::figure::Figure;
    use crate::goal::Goal;
    use crate::unit::Unit;

    #[test]
    fn a_saved_run_is_read_as_it_was() {
        let mut run = Run::new(Extent::new(true), "6.0.5");
        let rounds = Rounds(vec![Round { ours: 1.5, floor: 1.25 }]);
        let ratio = Figure::ratio("a pair", "a bare pair", &rounds, Unit::Millis);
        let goal = Goal::AtMost(1.15);
        run.figures.push(ratio.goal(goal).at("1,000", Some(1e3)).drawn());
        run.figures.push(Figure::counted("memory", 560.0, Unit::Bytes));
        run.cases.push("alone".to_owned());
        assert_eq!(Run::of_text(&run.text().unwrap()).unwrap(), run);
    }

    #[test]
    fn a_changed_or_unknown_commit_does_not_name_the_code() {
        let mut conditions = Run::new(Extent::new(true), "6.0.5").conditions;
        for (commit, names_it) in [("1b82a1922d5a", true), ("1b82a-dirty", false), (UNKNOWN, false)]
        {
            conditions.commit = commit.to_owned();
            assert_eq!(conditions.is_of_a_commit(), names_it, "{commit}");
        }
    }

    #[test]
    fn a_file_that_is_no_run_is_refused() {
        let error = Run::of_text("{\"figures\": []}").unwrap_err();
        assert!(error.to_string().contains("missing field"), "{error}");
    }
}
