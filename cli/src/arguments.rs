//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use mongo_lease_migrations::command_line::Connection;
use mongo_lease_migrations::manual;

use crate::exit::CODES;
#[cfg(unix)]
use crate::share::{NotWithKey, Share};

/// The environment variable for `--ttl`.
pub(crate) const TTL_VARIABLE: &str = "MONGO_LEASE_TTL";
/// The environment variable for `--owner`.
pub(crate) const OWNER_VARIABLE: &str = "MONGO_LEASE_OWNER";

/// The default ttl of `acquire`, whose leases nothing renews by itself.
///
/// A ttl that is too short ends the exclusion under a running job. One that is too long delays the next job after a
/// crash, and an operator can release the lease. So it is long: an hour, the usual time limit of a job in a pipeline.
#[cfg(unix)]
const TTL_OF_ACQUIRE: &str = "1h";

fn exit_codes() -> String {
    manual::table("Exit codes", &CODES)
}

/// Runs commands under a lease, and inspects leases.
#[derive(Parser)]
#[command(name = "mongo-lease", version, after_help = exit_codes())]
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
    /// With `--limit` or `--shared`, others may hold the lease at the same time.
    ///
    /// If `mongo-lease run` is killed, a second process of the same name ends the command. If both are killed, the
    /// command continues without its lease.
    #[cfg(unix)]
    #[command(after_help = exit_codes())]
    Run(Run),
    /// Acquires a lease for a script: prints its key, or writes it to a file, and ends
    ///
    /// The lease stays held until `release --key`, also by another process, or until its ttl is over. Nothing renews it
    /// by itself: the ttl must outlast the job, or the job must call `renew --key` in time. It is always exclusive.
    #[cfg(unix)]
    #[command(after_help = exit_codes())]
    Acquire(Acquire),
    /// Renews a lease that `acquire` has acquired, for its whole ttl from now on
    #[cfg(unix)]
    #[command(after_help = exit_codes())]
    Renew(Renew),
    /// Lists the leases that are held
    Ls(Ls),
    /// Shows who holds a lease
    Show(Show),
    /// Shows changes of leases as they happen: a table on a terminal, otherwise a line for each change
    Watch(Watch),
    /// Releases a lease by its key, or one that another process holds
    #[command(after_help = exit_codes())]
    Release(Release),
    /// Checks everything that leases depend on: indexes, topology, write concern, clocks, the TTL monitor, privileges,
    /// the history window, how long transactions last. It changes nothing
    Doctor(Doctor),
    /// Prints the completions for a shell
    Completions(Completions),
    /// Writes the manual pages, one for each command
    Man(Man),
    /// The process that ends a command whose `mongo-lease run` cannot
    #[cfg(unix)]
    #[command(hide = true)]
    Guard(Guard),
}

#[derive(Args, Clone)]
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

/// The options for the time while another process holds the lease.
#[derive(Args)]
pub(crate) struct Patience {
    /// How long to wait for the lease while another process holds it: a duration, or `forever`
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = Wait::parse)]
    pub(crate) wait: Wait,

    /// Does not wait: exits with 75 if another process holds the lease
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
}

/// The holder's label.
#[derive(Args)]
pub(crate) struct Label {
    /// The label of the holder, which is shown as LABEL@host:pid
    #[arg(long, value_name = "LABEL", default_value = "mongo-lease")]
    #[arg(env = OWNER_VARIABLE, hide_env_values = true)]
    pub(crate) owner: String,
}

#[cfg(unix)]
#[derive(Args)]
pub(crate) struct Run {
    /// The lease's name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) patience: Patience,

    #[command(flatten)]
    pub(crate) share: Share,

    /// How long the lease lasts without a renewal; at least 1s. It is renewed after a third of that
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = humantime::parse_duration, env = TTL_VARIABLE, hide_env_values = true)]
    pub(crate) ttl: Duration,

    /// How long the command has between SIGTERM and SIGKILL; at most a third of the ttl
    /// [default: 10s, or a third of the ttl where that is less]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,

    #[command(flatten)]
    pub(crate) label: Label,

    /// Runs COMMAND with `sh -c` when the lease is lost, for at most 10s, beside the end of the command. Its
    /// environment has MONGO_LEASE_NAME, MONGO_LEASE_TOKEN and MONGO_LEASE_LOST_REASON, and no MONGODB_URI
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_lost: Option<OsString>,

    /// Joins the words of the command with spaces, and runs them with `sh -c`
    #[arg(long)]
    pub(crate) shell: bool,

    /// The command. Its environment has MONGO_LEASE_NAME, MONGO_LEASE_TOKEN and MONGO_LEASE_EXPIRES_AT, and no
    /// MONGODB_URI
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[cfg(unix)]
#[derive(Args)]
pub(crate) struct Acquire {
    /// The lease's name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) patience: Patience,

    /// How long the lease lasts. It is not renewed: choose a time that outlasts the job, or call `renew --key` in time
    #[arg(long, value_name = "DURATION", default_value = TTL_OF_ACQUIRE)]
    #[arg(value_parser = humantime::parse_duration, env = TTL_VARIABLE, hide_env_values = true)]
    pub(crate) ttl: Duration,

    #[command(flatten)]
    pub(crate) label: Label,

    /// Writes the key to a file of mode 600, instead of printing it. A file that is there must be empty, or have the
    /// key of an earlier grant of this lease
    #[arg(long, value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub(crate) key: PathBuf,

    #[command(flatten)]
    pub(crate) not_with_key: NotWithKey,

    /// Writes JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(unix)]
#[derive(Args)]
pub(crate) struct Renew {
    /// The file with the key, which nobody else may read; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,

    /// The lease's ttl from now on; defaults to the ttl that the lease has. The expiry never becomes earlier
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) ttl: Option<Duration>,

    /// Writes JSON
    #[arg(long)]
    pub(crate) json: bool,
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
    /// The lease's name; a key has it already
    #[cfg_attr(unix, arg(required_unless_present = "key", conflicts_with = "key"))]
    #[cfg_attr(not(unix), arg(required = true))]
    pub(crate) name: Option<String>,

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

    /// Releases the lease of this key, and removes the file; `-` reads standard input. Nobody else may read the file
    #[cfg(unix)]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Doctor {
    /// The maximum clock skew: how far the clocks of the members may differ. Pass what the services' managers use
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) max_clock_skew: Duration,

    /// The ttl of the services' leases: compared with how long a server lets transactions last
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,

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
pub(crate) struct Man {
    /// The folder for the pages; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
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
