//! The exit codes of the program.

use std::process::ExitCode;

/// The exit codes. Documented in `--help` and in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or nothing to do.
    Done,
    /// The indexes differ from their specifications, or a person must decide.
    Drift,
    /// The command line is not valid.
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
