//! The command line.

use std::time::Duration;

use clap::{Parser, Subcommand};
use mongo_lease_migrations::connect::{Target, uri_of_environment};
use mongo_lease_migrations::secret::Uri;

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
    /// The connection string; use the environment to hide it from other users of the machine [env: MONGODB_URI]
    // The parser does not know the variable: otherwise its usage lines would show `--uri` as required.
    #[arg(long, global = true)]
    pub(crate) uri: Option<Uri>,

    /// The database; defaults to that of the connection string
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) db: Option<String>,

    /// The collection
    #[arg(long, global = true, value_name = "NAME", default_value = "locks")]
    pub(crate) collection: String,

    /// Writes the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Changes existing indexes without asking
    #[arg(long, global = true)]
    pub(crate) yes: bool,

    /// How long to wait for the database to answer, such as 500ms, 10s or 2m
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

impl Options {
    /// Fills options that the command line does not set from the environment.
    pub(crate) fn or_environment(mut self) -> Options {
        self.uri = self.uri.or_else(uri_of_environment);
        self
    }

    /// The collection of the leases, and how to reach it.
    pub(crate) fn target(&self) -> Target<'_> {
        Target {
            uri: self.uri.as_ref(),
            database: self.db.as_deref(),
            collection: &self.collection,
            timeout: self.timeout,
            program: "mongo-lease-migrate",
        }
    }
}
