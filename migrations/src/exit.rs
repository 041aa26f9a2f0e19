//! How the program ends.

use std::process::ExitCode;

/// How the program ends. Documented in `--help` and in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or nothing to do.
    Done,
    /// The indexes are not what they have to be, or somebody has to decide.
    Drift,
    /// The command line makes no sense.
    Usage,
    /// The database cannot be reached, or refuses.
    OutOfReach,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Drift => 1,
            Exit::Usage => 2,
            Exit::OutOfReach => 3,
        })
    }
}
