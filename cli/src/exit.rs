//! The exit codes of the program.

use std::process::ExitCode;

use mongo_lease_migrations::manual::Row;

/// The exit codes, for `--help` and the manual pages.
pub(crate) const CODES: [Row; 12] = [
    ("0", "done; `run`: the command's own exit code"),
    ("1", "no: the lease is not held (show, release), or there is a problem to fix (doctor)"),
    ("64", "usage: the command line, the connection string or the key is not valid"),
    ("65", "the lease's document is damaged: repair it by hand"),
    ("69", "the database is out of reach, or refuses: authentication, a privilege"),
    ("71", "the operating system refused a call, or the key could not be written"),
    ("75", "busy: another process holds the lease"),
    ("76", "lost: the lease was lost, and the command was ended (run), or it cannot be renewed"),
    ("78", "the collection is not set up: run mongo-lease-migrate"),
    ("126", "the command cannot be executed"),
    ("127", "the command is not found"),
    ("128+n", "the command was ended by signal n, or signal n came before it started"),
];

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
    /// The lease was lost. A command that ran under it was ended.
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
