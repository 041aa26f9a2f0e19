//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::control::Control;
use crate::nemesis::Choice;

const EXIT_CODES: &str = "\
Exit codes:
  0  no violation was found; with --control: the expected violations were found
  1  violations were found
  2  with --control: no violation was found, and the run is void
  3  the suite itself failed";

/// Tortures mongo-lease: worker processes, faults, and a checker that reads all histories.
#[derive(Parser)]
#[command(name = "torture", after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Option<Task>,

    #[command(flatten)]
    pub(crate) options: Options,
}

/// The tasks of the processes that a run starts.
#[derive(Subcommand)]
pub(crate) enum Task {
    #[command(hide = true)]
    Worker(WorkerOrders),
    #[command(hide = true)]
    Resource(ResourceOrders),
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// For how long faults are injected, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,

    /// Chooses the faults and the workers' plans; printed, and random when it is not given
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// The faults: names separated by commas, `a+b` for two at once, or `all`
    #[arg(long, value_parser = Choice::parse)]
    pub(crate) nemeses: Option<Choice>,

    /// The same run with something broken on purpose: it must report violations
    #[arg(long)]
    pub(crate) control: Option<Control>,

    /// A folder for the histories; by default a temporary one, which is removed when no violation was found
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,

    #[arg(long, default_value_t = 6)]
    pub(crate) workers: usize,

    /// How many of the workers are processes of the Node client, which has to be built: `npm ci && npm run build` in
    /// `clients/node`
    #[arg(long, default_value_t = 0)]
    pub(crate) node_workers: usize,

    /// For how many leases the workers compete
    #[arg(long, default_value_t = 3)]
    pub(crate) names: usize,

    /// How many calls for exclusive leases a worker makes concurrently. With many calls and many names, calls are
    /// batched
    #[arg(long, default_value_t = 2)]
    pub(crate) tasks: u64,

    /// How many calls for permits and shares a worker makes concurrently, for five leases of their own; 0 for none
    #[arg(long, default_value_t = 3)]
    pub(crate) shared_tasks: u64,

    #[arg(long, default_value_t = 1_500)]
    pub(crate) waiter_ttl_ms: u64,
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct WorkerOrders {
    #[arg(long)]
    pub(crate) id: String,
    #[arg(long)]
    pub(crate) uri: String,
    #[arg(long)]
    pub(crate) database: String,
    #[arg(long)]
    pub(crate) history: PathBuf,
    #[arg(long)]
    pub(crate) resource: SocketAddr,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) names: usize,
    #[arg(long)]
    pub(crate) tasks: u64,
    #[arg(long)]
    pub(crate) shared_tasks: u64,
    #[arg(long)]
    pub(crate) waiter_ttl_ms: u64,
    #[arg(long)]
    pub(crate) control: Option<Control>,
    /// The program of a worker in Node.
    #[arg(long)]
    pub(crate) script: Option<PathBuf>,
}

impl WorkerOrders {
    pub(crate) fn waiter_ttl(&self) -> Duration {
        Duration::from_millis(self.waiter_ttl_ms)
    }

    /// Half of the workers do, by chance of their names, so that both kinds of release meet.
    pub(crate) fn makes_tombstones(&self) -> bool {
        self.id.bytes().map(u32::from).sum::<u32>() % 2 == 1
    }
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ResourceOrders {
    #[arg(long)]
    pub(crate) history: PathBuf,
    #[arg(long)]
    pub(crate) control: Option<Control>,
}
