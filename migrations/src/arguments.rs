//! The command line.

use clap::{Parser, Subcommand};
use mongo_lease_migrations::command_line::Connection;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or nothing to do
  1  drift: the indexes are not as required, or a person has to decide
     (plan: only if a person has to decide)
  2  usage: the command line or the connection string is not valid
  3  the database cannot be reached, or refuses: authentication, a missing privilege";

/// Sets up the indexes that mongo-lease needs: unique on `name`, and TTL on `expiresAt`.
///
/// Missing indexes are created without asking. A change of an existing index is confirmed on a terminal, and needs
/// --yes elsewhere. If only a person can decide, nothing is changed. Any number of these processes may run at once.
#[derive(Parser)]
#[command(name = "mongo-lease-migrate", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Option<Task>,

    #[command(flatten)]
    pub(crate) options: Options,
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
