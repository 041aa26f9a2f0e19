//! `mongo-lease`: runs commands under a lease, and shows leases.

mod about;
#[cfg(unix)]
mod acquire;
mod arguments;
mod board;
mod clock;
mod connect;
mod console;
mod doctor;
mod exit;
mod failure;
#[cfg(unix)]
mod key;
mod list;
mod release;
#[cfg(unix)]
mod renew;
mod report;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod share;
mod show;
#[cfg(unix)]
mod signals;
mod start;
mod text;
#[cfg(unix)]
mod waiting;
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
