//! `mongo-lease`: runs commands under a lease, and looks at leases.

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

// The same everywhere: what must not be printed is one question, and what a pattern means is another.
#[path = "../../src/rules/pattern.rs"]
#[allow(dead_code, reason = "a listing by prefix is the library's own")]
mod pattern;
#[path = "../../migrations/src/secret.rs"]
mod secret;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut console = console::Console::of_the_process();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console.say(&format!("error: the system gives no threads: {error}"));
            return exit::Exit::System.into();
        }
    };
    let exit = runtime.block_on(start::start(std::env::args_os().collect(), &mut console));
    // Nothing is waited for any more: what is still under way is a command that is not answered.
    runtime.shutdown_background();
    exit.into()
}
