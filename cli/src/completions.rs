//! Prints shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::console::Console;
use crate::exit::Exit;

/// Prints the completion script for the shell.
pub(crate) fn print(shell: Shell, console: &mut Console) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mongo-lease", &mut script);
    console.put_raw(&String::from_utf8_lossy(&script));
    Exit::Done
}
