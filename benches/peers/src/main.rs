//! The same work done by mongo-lease and by lock libraries on MongoDB, Redis, etcd and ZooKeeper, in one run.
//!
//! It is the sister of `benches`. The rounds of all contenders are interleaved, and each figure is the median of the
//! rounds with its quartiles. Each stands beside a bare write and delete on its own server and beside the driver's on
//! mongod, in the same rounds.

#![allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

mod cases;
mod chart;
mod contender;
mod peers;
mod report;
mod servers;
mod setup;
mod worker;
mod workers;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use mongo_lease_measure::{Extent, Outcome};

use crate::report::Report;
use crate::setup::Setup;

/// Measures lock libraries on MongoDB, Redis, etcd and ZooKeeper beside mongo-lease, in one run.
#[derive(Parser)]
struct Arguments {
    /// The cases to measure; all of them by default.
    cases: Vec<Case>,
    /// Fewer and shorter rounds: about three minutes for everything.
    #[arg(long)]
    short: bool,
    /// Only contenders and servers whose name contains this; may be given several times. mongod and mongo-lease are
    /// always there.
    #[arg(long)]
    only: Vec<String>,
    /// Writes the tables between the markers of this page, and the charts beside it. Tables that were not measured now
    /// stay as they are. A page that does not exist is made.
    #[arg(long)]
    write: Option<PathBuf>,
}

/// The cases.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Acquire and release of one caller.
    Alone,
    /// Pairs a second of many tasks.
    Many,
    /// An attempt that loses.
    Losing,
    /// From one process's release to another process's grant.
    HandOff,
    /// The cost of waiting processes for the server, and their order
    Waiting,
    /// Renewals, and the memory of a held lock.
    Holding,
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
    let only = &arguments.only;
    let setup = Setup::new(only).await?;
    for line in &setup.left_out {
        println!("{line}");
    }
    let mut report = Report::new(extent, &setup).await?;
    setup.close().await;
    for case in cases {
        match case {
            Case::Alone => cases::alone::measure(only, extent, &mut report).await?,
            Case::Many => cases::many::measure(only, extent, &mut report).await?,
            Case::Losing => cases::losing::measure(only, extent, &mut report).await?,
            Case::HandOff => cases::hand_off::measure(only, extent, &mut report).await?,
            Case::Waiting => cases::waiting::measure(only, extent, &mut report).await?,
            Case::Holding => cases::holding::measure(only, extent, &mut report).await?,
        }
    }
    match arguments.write {
        Some(page) => report.write(&page),
        None => Ok(()),
    }
}
