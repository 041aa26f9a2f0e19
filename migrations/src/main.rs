//! `mongo-lease-migrate`: sets up the indexes that mongo-lease needs.

mod arguments;
mod connect;
mod console;
mod exit;
mod print;
mod report;
mod run;
mod secret;

use std::process::ExitCode;

use console::Console;
use exit::Exit;

fn main() -> ExitCode {
    let mut console = Console::of_the_process();
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run::run(std::env::args_os().collect(), &mut console)),
        Err(error) => {
            console.say(&format!("error: the system gives no threads: {error}"));
            Exit::OutOfReach
        }
    };
    exit.into()
}
