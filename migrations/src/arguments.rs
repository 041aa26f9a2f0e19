//! The command line.

use clap::{Parser, Subcommand};
use mongo_lease_migrations::command_line::Connection;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or nothing to do
  1  drift: the indexes are not what they have to be, or somebody has to decide
     (plan: only when somebody has to decide)
  2  usage: the command line or the connection string makes no sense
  3  the database cannot be reached, or refuses: authentication, a missing privilege";

/// Sets up the indexes that mongo-lease needs: unique on `name`, and TTL on `expiresAt`.
///
/// Missing indexes are made without asking. What changes an index that is there is asked for on a terminal, and needs
/// --yes elsewhere. When only a person can decide, nothing is changed. Any number of these may run at once.
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
    /// Makes the indexes what they have to be (the default)
    Up,
    /// Says whether the indexes are what they have to be; changes nothing
    Check,
    /// Says what `up` would do; changes nothing
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
