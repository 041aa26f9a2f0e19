//! The cost of leases, beside the driver's own floors in the same run.
//!
//! Rounds of all sides are interleaved. Each figure of a run is the median of its rounds' ratios, so that a busy moment
//! of the machine affects all sides. The page has the median of several runs.

#![allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

mod cases;
mod chart;
mod combine;
mod commands;
mod databases;
mod figure;
mod goal;
mod held;
mod page;
mod pairs;
mod per_side;
mod prolonged;
mod report;
mod run;
mod setup;
mod side;
mod unit;
mod worker;
mod workers;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use mongo_lease::mongodb::bson::doc;
use mongo_lease_measure::{Extent, Outcome};
use mongo_lease_testbed::Server;

use crate::combine::Combined;
use crate::report::Report;
use crate::run::Run;

/// Measures what leases cost, beside the driver's own floors in the same run.
#[derive(Parser)]
struct Arguments {
    /// The cases to measure; all of them by default.
    #[arg(conflicts_with = "combine")]
    cases: Vec<Case>,
    /// Fewer and shorter rounds: six minutes for everything.
    #[arg(long, conflicts_with = "combine")]
    short: bool,
    /// Saves the figures of this run as JSON, after each case.
    #[arg(long, value_name = "FILE", conflicts_with = "combine")]
    save: Option<PathBuf>,
    /// Measures nothing: combines saved runs, and prints or writes their medians.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    combine: Vec<PathBuf>,
    /// Writes the tables between the markers of this page, and the charts beside it. Nothing of an earlier writing
    /// stays there. A page that does not exist is made.
    #[arg(long, value_name = "PAGE")]
    write: Option<PathBuf>,
}

/// The cases.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Acquire and release of one caller.
    Alone,
    /// An attempt at a lease that another holder has.
    Losing,
    /// Pairs a second of many tasks.
    Many,
    /// From one process's release to another process's grant.
    HandOff,
    /// The cost of waiting processes for the server, and their order.
    Waiting,
    /// Renewals, memory, and a manager that does nothing.
    Holding,
    /// The memory of a lease and of a call that waits.
    Memory,
    /// Ever larger collections, ever more processes, and a replica set of three.
    Growth,
    /// More calls than the server carries out.
    Overload,
    /// Renewals beside change streams that watch something else.
    Streams,
    /// Ever new names, with tombstones and without.
    Tombstones,
    /// Permits of a semaphore, and shared leases.
    Permits,
    /// Transactions under a lease, beside the driver's own.
    Transactions,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    if worker::is_one() {
        return worker::work().await;
    }
    let arguments = Arguments::parse();
    let runs = if arguments.combine.is_empty() {
        vec![measured(&arguments).await?]
    } else {
        arguments.combine.iter().map(|file| Run::read(file)).collect::<Outcome<_>>()?
    };
    let all_cases: Vec<String> = Case::value_variants().iter().map(|case| case.name()).collect();
    let combined = Combined::of(&runs)?;
    match &arguments.write {
        Some(page) => page::write(page, &combined, &all_cases),
        None if arguments.combine.is_empty() => Ok(()),
        None => {
            println!("{}", page::text(&combined, &all_cases));
            Ok(())
        }
    }
}

async fn measured(arguments: &Arguments) -> Outcome<Run> {
    let extent = Extent::new(arguments.short);
    let cases = if arguments.cases.is_empty() {
        Case::value_variants().to_vec()
    } else {
        arguments.cases.clone()
    };
    let version = server_version().await?;
    println!("{}, MongoDB {version}", extent.on_this_machine());
    let mut report = Report::new(Run::new(extent, &version), arguments.save.clone());
    for case in cases {
        let started = Instant::now();
        case.measure(extent, &mut report).await?;
        report.measured(&case.name())?;
        println!("  ({}: {:.0} s)", case.name(), started.elapsed().as_secs_f64());
    }
    Ok(report.run)
}

async fn server_version() -> Outcome<String> {
    let answer = Server::start().admin(doc! { "buildInfo": 1 }).await;
    Ok(answer.get_str("version")?.to_owned())
}

impl Case {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    async fn measure(self, extent: Extent, report: &mut Report) -> Outcome<()> {
        match self {
            Case::Alone => cases::alone::measure(extent, report).await,
            Case::Losing => cases::losing::measure(extent, report).await,
            Case::Many => cases::many::measure(extent, report).await,
            Case::HandOff => cases::hand_off::measure(extent, report).await,
            Case::Waiting => cases::waiting::measure(extent, report).await,
            Case::Holding => cases::holding::measure(extent, report).await,
            Case::Memory => cases::memory::measure(report).await,
            Case::Growth => cases::growth::measure(extent, report).await,
            Case::Overload => cases::overload::measure(extent, report).await,
            Case::Streams => cases::streams::measure(extent, report).await,
            Case::Tombstones => cases::tombstones::measure(extent, report).await,
            Case::Permits => cases::permits::measure(extent, report).await,
            Case::Transactions => cases::transactions::measure(extent, report).await,
        }
    }
}
