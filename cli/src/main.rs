//! `mongo-lease`: runs commands under a lease, and shows leases.

mod arguments;
mod board;
mod clock;
mod completions;
mod connect;
mod console;
mod doctor;
mod exit;
mod failure;
mod list;
mod release;
mod report;
#[cfg(unix)]
mod run;
mod show;
mod start;
mod text;
mod watch;

use std::process::ExitCode;

use mongo_lease_migrations::process;

fn main() -> ExitCode {
    let mut console = console::Console::of_the_process();
    let exit = match process::run(start::start(std::env::args_os().collect(), &mut console)) {
        Ok(exit) => exit,
        Err(error) => {
            console.say(&format!("error: cannot start the async runtime: {error}"));
            exit::Exit::System
        }
    };
    exit.into()
}
