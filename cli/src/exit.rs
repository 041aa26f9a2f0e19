//! The exit codes of the program.

use std::process::ExitCode;

/// The exit codes. Documented in `--help` and in the README.
///
/// They are not the small numbers of `mongo-lease-migrate`: commands end with those, and `run` passes a command's code
/// on. These are the numbers of `sysexits.h`, which few commands use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The lease is not held, or a check has found a problem.
    No,
    /// The command line is not valid.
    Usage,
    /// The lease's document is damaged.
    Damaged,
    /// The database cannot be reached, or refuses.
    OutOfReach,
    /// The operating system refuses.
    System,
    /// The lease is held.
    Busy,
    /// The lease was lost, and the command was ended.
    Lost,
    /// The collection is not set up.
    NotMigrated,
    /// The exit code of the command, or of the failure to start it.
    Command(u8),
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Usage => 64,
            Exit::Damaged => 65,
            Exit::OutOfReach => 69,
            Exit::System => 71,
            Exit::Busy => 75,
            Exit::Lost => 76,
            Exit::NotMigrated => 78,
            Exit::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
