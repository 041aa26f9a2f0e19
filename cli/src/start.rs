//! Starts the subcommand of the command line.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use mongo_lease_migrations::secret;

use crate::arguments::{Arguments, Task};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{completions, doctor, list, release, report, show, watch};

/// Runs the subcommand of the command line.
pub(crate) async fn start(arguments: Vec<OsString>, console: &mut Console) -> Exit {
    let mut parsed = match Arguments::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return not_understood(&error, &arguments, console),
    };
    parsed.options.fill_from_environment();
    let options = &parsed.options;
    let (result, json) = match &parsed.task {
        #[cfg(unix)]
        Task::Run(task) => (crate::run::run(task, options, console).await, false),
        #[cfg(unix)]
        Task::Guard(task) => (Ok(crate::run::guard::stand(task).await), false),
        Task::Ls(task) => (list::list(task, options, console).await, task.json),
        Task::Show(task) => (show::show(task, options, console).await, task.json),
        Task::Watch(task) => (watch::watch(task, options, console).await, task.json),
        Task::Release(task) => (release::release(task, options, console).await, task.json),
        Task::Doctor(task) => (doctor::doctor(task, options, console).await, task.json),
        Task::Completions(task) => (Ok(completions::print(task.shell, console)), false),
    };
    result.unwrap_or_else(|failure| end(&failure, json, console))
}

fn end(failure: &Failure, json: bool, console: &mut Console) -> Exit {
    console.say(&format!("error: {}", failure.message));
    if json {
        console.put(&report::failure(failure).to_string());
    }
    failure.exit
}

/// Prints the help or a usage error. Any argument may have been meant as a connection string, so secrets are hidden.
fn not_understood(error: &clap::Error, arguments: &[OsString], console: &mut Console) -> Exit {
    let rendered = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        console.put(rendered.trim_end());
        return Exit::Done;
    }
    let veiled = arguments
        .iter()
        .fold(rendered, |text, argument| secret::veil(&text, &argument.to_string_lossy()));
    console.say(veiled.trim_end());
    Exit::Usage
}
