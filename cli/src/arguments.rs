//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use mongo_lease_migrations::command_line::Connection;

const EXIT_CODES: &str = "\
Exit codes:
    0  done; `run`: the command's own exit code
    1  the answer is no: nobody holds it (show, release), or something has
       to be mended (doctor)
   64  usage: the command line or the connection string makes no sense
   65  the lease's document is damaged: a person has to mend it
   69  the database is out of reach, or refuses: authentication, a privilege
   71  the operating system refuses
   75  busy: somebody else holds the lease
   76  lost: the lease was lost, and the command was ended
   78  the collection is not set up: run mongo-lease-migrate
  126  the command cannot be executed
  127  the command is not found
128+n  the command was ended by signal n, or signal n came before it began";

/// Runs commands under a lease, and looks at leases.
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
    /// Runs a command while holding a lease, and ends it before the lease can be anybody else's
    ///
    /// Where `mongo-lease run` is killed, a second process of the same name ends the command. Where both are killed,
    /// the command goes on without its lease.
    #[cfg(unix)]
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Lists the leases that are held
    Ls(Ls),
    /// Shows who holds a lease
    Show(Show),
    /// Shows leases as they come and go: a table on a terminal, else a line for each change
    Watch(Watch),
    /// Releases a lease in place of its holder
    Release(Release),
    /// Looks for what could keep leases from working: indexes, topology, write concern, clocks, the TTL monitor,
    /// privileges, the history window. It changes nothing
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

    /// States that the indexes are there, for users who may not list them
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

    /// How long to wait for the lease while somebody else holds it: a duration, or `forever`
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = Wait::parse)]
    pub(crate) wait: Wait,

    /// Does not wait: ends with 75 when somebody else holds the lease
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

    /// Who holds the lease, for those who look: it is shown as LABEL@host:pid
    #[arg(long, value_name = "LABEL", default_value = "mongo-lease")]
    pub(crate) owner: String,

    /// Runs the command line, joined by spaces, with `sh -c`
    #[arg(long)]
    pub(crate) shell: bool,

    /// The command. It finds MONGO_LEASE_NAME, MONGO_LEASE_TOKEN and MONGO_LEASE_EXPIRES_AT in its environment, and no
    /// MONGODB_URI
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Args)]
pub(crate) struct Ls {
    /// Only names that match as a whole: `*` stands for any characters, `?` for one, `\` quotes the next
    pub(crate) pattern: Option<String>,

    /// Also leases that have run out, and whose documents have not been removed yet
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
    /// Only if it is held under this value
    #[arg(long)]
    pub(crate) value: Option<String>,

    /// Whoever holds it: looks who does, and releases it if that one still does
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct Doctor {
    /// By how much the clocks of the members may differ: the allowance that the services' managers have
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) allowance: Duration,

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
