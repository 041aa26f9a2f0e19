//! Tortures mongo-lease: worker processes hold leases, faults hit the database below them, and a checker reads all
//! histories afterwards. See `README.md`.

mod arguments;
mod clock;
mod cluster;
mod console;
mod control;
mod fleet;
mod gather;
mod history;
mod nemesis;
mod oplog;
mod proxy;
mod resource;
mod run;
mod table;
mod terms;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Task};

/// The program's exit codes. Documented in `--help` and in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Clean = 0,
    Violations = 1,
    /// A control found nothing: then the checker, or the run, is worth nothing.
    Void = 2,
    /// The suite itself failed.
    Broken = 3,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                console::say(&format!("cannot start the async runtime: {error}"));
                return ExitCode::from(Exit::Broken as u8);
            }
        };
    let exit = match arguments.task {
        Some(Task::Worker(orders)) if orders.script.is_some() => worker::in_node(&orders),
        Some(Task::Worker(orders)) => runtime.block_on(worker::work(orders)),
        Some(Task::Resource(orders)) => runtime.block_on(resource::serve(orders)),
        // In a task of its own: a panic anywhere in the suite is the suite's failure, and no verdict.
        None => runtime.block_on(async {
            let run = tokio::spawn(run::run(arguments.options));
            match run.await {
                Ok(Ok(exit)) => exit,
                Ok(Err(error)) => {
                    console::say(&format!("the suite itself failed: {error}"));
                    Exit::Broken
                }
                Err(_panic) => Exit::Broken,
            }
        }),
    };
    // Does not wait for tasks that still hang.
    runtime.shutdown_background();
    ExitCode::from(exit as u8)
}
