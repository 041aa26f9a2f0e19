//! How the program ends.

use std::process::ExitCode;

/// How the program ends. Documented in `--help` and in the README.
///
/// Not the small numbers of `mongo-lease-migrate`: those are what commands end with, and `run` passes them on. These
/// are the numbers of `sysexits.h`, which few commands use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The answer is no: nobody holds it, or something has to be mended.
    No,
    /// The command line makes no sense.
    Usage,
    /// The lease's document is damaged.
    Damaged,
    /// The database cannot be reached, or refuses.
    OutOfReach,
    /// The operating system refuses.
    System,
    /// Somebody else holds the lease.
    Busy,
    /// The lease was lost, and the command was ended.
    Lost,
    /// The collection is not set up.
    NotMigrated,
    /// What the command has ended with, or that it could not be started.
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
