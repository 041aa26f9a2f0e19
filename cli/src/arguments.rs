//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use mongo_lease_migrations::command_line::Connection;

const EXIT_CODES: &str = "\
Exit codes:
    0  done; `run`: the command's own exit code
    1  no: the lease is not held (show, release), or there is a problem
       to fix (doctor)
   64  usage: the command line or the connection string is not valid
   65  the lease's document is damaged: repair it by hand
   69  the database is out of reach, or refuses: authentication, a privilege
   71  the operating system refused a call
   75  busy: another process holds the lease
   76  lost: the lease was lost, and the command was ended
   78  the collection is not set up: run mongo-lease-migrate
  126  the command cannot be executed
  127  the command is not found
128+n  the command was ended by signal n, or signal n came before it started";

/// Runs commands under a lease, and inspects leases.
#[derive(Parser)]
#[command(name = "mongo-lease", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Task,

    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Subcommand)]
pub(crate) enum Task {
    /// Runs a command while holding a lease, and ends it before another process can get the lease
    ///
    /// If `mongo-lease run` is killed, a second process of the same name ends the command. If both are killed, the
    /// command continues without its lease.
    #[cfg(unix)]
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Lists the leases that are held
    Ls(Ls),
    /// Shows who holds a lease
    Show(Show),
    /// Shows changes of leases as they happen: a table on a terminal, otherwise a line for each change
    Watch(Watch),
    /// Releases a lease that another process holds
    Release(Release),
    /// Checks everything that leases depend on: indexes, topology, write concern, clocks, the TTL monitor, privileges,
    /// the history window. It changes nothing
    Doctor(Doctor),
    /// Prints the completions for a shell
    Completions(Completions),
    /// The process that ends a command whose `mongo-lease run` cannot
    #[cfg(unix)]
    #[command(hide = true)]
    Guard(Guard),
}

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) connection: Connection,

    /// Skips the check that the indexes exist, for users who may not list them
    #[arg(long, global = true)]
    pub(crate) assume_indexes: bool,
}

/// How long to wait for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    For(Duration),
    Forever,
}

impl Wait {
    fn parse(text: &str) -> Result<Wait, humantime::DurationError> {
        match text {
            "forever" => Ok(Wait::Forever),
            duration => humantime::parse_duration(duration).map(Wait::For),
        }
    }
}

#[derive(Args)]
pub(crate) struct Run {
    /// The lease's name
    pub(crate) name: String,

    /// How long to wait for the lease while another process holds it: a duration, or `forever`
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = Wait::parse)]
    pub(crate) wait: Wait,

    /// Does not wait: exits with 75 if another process holds the lease
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// How long the lease lasts without a renewal; at least 1s. It is renewed after a third of that
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,

    /// How long the command has between SIGTERM and SIGKILL; at most a third of the ttl
    /// [default: 10s, or a third of the ttl where that is less]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// The label of the holder, which is shown as LABEL@host:pid
    #[arg(long, value_name = "LABEL", default_value = "mongo-lease")]
    pub(crate) owner: String,

    /// Joins the words of the command with spaces, and runs them with `sh -c`
    #[arg(long)]
    pub(crate) shell: bool,

    /// The command. Its environment has MONGO_LEASE_NAME, MONGO_LEASE_TOKEN and MONGO_LEASE_EXPIRES_AT, and no
    /// MONGODB_URI
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Args)]
pub(crate) struct Ls {
    /// Only names that match as a whole: `*` matches any characters, `?` matches one, `\` escapes the next
    pub(crate) pattern: Option<String>,

    /// Also expired leases whose documents have not been removed yet
    #[arg(long)]
    pub(crate) all: bool,

    /// Writes a line of JSON for each lease
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Show {
    /// The lease's name
    pub(crate) name: String,

    /// Writes JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Watch {
    /// Only names that match as a whole, as for `ls`
    pub(crate) pattern: Option<String>,

    /// Writes a line of JSON for each change
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Release {
    /// The lease's name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) holder: Holder,

    /// Writes JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose lease it is.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Holder {
    /// Releases the lease only if its holder has this value
    #[arg(long)]
    pub(crate) value: Option<String>,

    /// Reads who holds the lease, and releases it if that holder still has it
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct Doctor {
    /// The maximum clock skew: how far the clocks of the members may differ. Pass what the services' managers use
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) max_clock_skew: Duration,

    /// Writes JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Args)]
pub(crate) struct Guard {
    /// Between SIGTERM and SIGKILL, in milliseconds
    pub(crate) grace_ms: u64,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
