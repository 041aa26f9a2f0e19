//! `mongo-lease-migrate`: sets up the indexes that mongo-lease needs.

mod about;
mod arguments;
mod console;
mod exit;
mod print;
mod report;
mod run;

use std::process::ExitCode;

use console::Console;
use exit::Exit;
use mongo_lease_migrations::process;

fn main() -> ExitCode {
    let mut console = Console::of_the_process();
    let exit = match process::run(run::run(std::env::args_os().collect(), &mut console)) {
        Ok(exit) => exit,
        Err(error) => {
            console.say(&format!("error: cannot start the async runtime: {error}"));
            Exit::OutOfReach
        }
    };
    exit.into()
}
