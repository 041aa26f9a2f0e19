//! The cost of leases, beside the driver's own floor in the same run.
//!
//! Rounds of ours and of the floor are interleaved. Each figure is the median of the rounds' ratios with its quartiles,
//! so that a busy moment of the machine affects both. Times are printed for orientation only.

#![allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

mod bare;
mod cases;
mod chart;
mod held;
mod report;
mod worker;
mod workers;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use mongo_lease_measure::{Extent, Outcome};

use crate::report::Report;

/// Measures what leases cost, beside the driver's own floor in the same run.
#[derive(Parser)]
struct Arguments {
    /// The cases to measure; all of them by default.
    cases: Vec<Case>,
    /// Fewer and shorter rounds: two minutes for everything.
    #[arg(long)]
    short: bool,
    /// Writes the table between the markers of this page, and the charts beside it. Rows that were not measured now
    /// stay as they are.
    #[arg(long)]
    write: Option<PathBuf>,
}

/// The cases.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Acquire and release of one caller, and an attempt that loses.
    Alone,
    /// Pairs a second of many tasks.
    Many,
    /// From one process's release to another process's grant.
    HandOff,
    /// The cost of waiting processes for the server, and their order
    Waiting,
    /// Renewals.
    Holding,
    /// Of a lease, and of a waiter.
    Memory,
    /// Ever new names.
    Churn,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    if worker::is_one() {
        return worker::work().await;
    }
    let arguments = Arguments::parse();
    let extent = Extent::new(arguments.short);
    let cases = if arguments.cases.is_empty() {
        Case::value_variants().to_vec()
    } else {
        arguments.cases.clone()
    };
    let mut report = Report::new(extent);
    for case in cases {
        match case {
            Case::Alone => cases::alone::measure(extent, &mut report).await?,
            Case::Many => cases::many::measure(extent, &mut report).await?,
            Case::HandOff => cases::hand_off::measure(extent, &mut report).await?,
            Case::Waiting => cases::waiting::measure(extent, &mut report).await?,
            Case::Holding => cases::holding::measure(extent, &mut report).await?,
            Case::Memory => cases::memory::measure(&mut report).await?,
            Case::Churn => cases::churn::measure(extent, &mut report).await?,
        }
    }
    match arguments.write {
        Some(page) => report.write(&page),
        None => Ok(()),
    }
}
