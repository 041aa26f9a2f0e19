//! The command line.

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use mongo_lease_migrations::command_line::Connection;
use mongo_lease_migrations::manual::{self, Row};

/// The exit codes.
pub(crate) const EXIT_CODES: [Row; 4] = [
    ("0", "done, or nothing to do"),
    (
        "1",
        "drift: the indexes are not as required, or a person has to decide (plan: only if a person \
         has to decide)",
    ),
    ("2", "usage: the command line or the connection string is not valid"),
    ("3", "the database cannot be reached, or refuses: authentication, a missing privilege"),
];

/// Sets up the indexes that mongo-lease needs: unique on `name`, and TTL on `expiresAt`.
///
/// Missing indexes are created without asking. A change of an existing index is confirmed on a terminal, and needs
/// --yes elsewhere. If only a person can decide, nothing is changed. Any number of these processes may run at once.
#[derive(Parser)]
#[command(name = "mongo-lease-migrate", version)]
#[command(after_help = manual::table("Exit codes", &EXIT_CODES))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Option<Task>,

    #[command(flatten)]
    pub(crate) options: Options,

    /// Prints the manual page, and ends
    #[arg(long)]
    pub(crate) man: bool,

    /// Prints the completions for a shell, and ends
    #[arg(long, value_name = "SHELL", conflicts_with = "man")]
    pub(crate) completions: Option<Shell>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Task {
    /// Creates the missing indexes, and changes those that are not as required (the default)
    Up,
    /// Checks whether the indexes are as required; changes nothing
    Check,
    /// Shows what `up` would do; changes nothing
    Plan,
    /// Prints the commands for mongosh, without a database
    Print,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) connection: Connection,

    /// Writes the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Changes existing indexes without asking
    #[arg(long, global = true)]
    pub(crate) yes: bool,
}
