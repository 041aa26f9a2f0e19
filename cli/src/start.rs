//! Starts the subcommand of the command line.

use std::ffi::OsString;

use mongo_lease_migrations::command_line::{self, Answer};

use crate::arguments::{Arguments, Task};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{about, doctor, list, release, report, show, watch};

/// Runs the subcommand of the command line.
pub(crate) async fn start(arguments: Vec<OsString>, console: &mut Console) -> Exit {
    let (mut parsed, origins): (Arguments, _) = match command_line::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(Answer::Help(text)) => {
            console.put(&text);
            return Exit::Done;
        }
        Err(Answer::Mistake(text)) => {
            console.say(&text);
            return Exit::Usage;
        }
    };
    parsed.options.connection.complete(origins);
    let options = &parsed.options;
    let (result, json) = match &parsed.task {
        #[cfg(unix)]
        Task::Run(task) => (crate::run::run(task, options, console).await, false),
        #[cfg(unix)]
        Task::Guard(task) => (Ok(crate::run::guard::stand(task).await), false),
        #[cfg(unix)]
        Task::Acquire(task) => (crate::acquire::acquire(task, options, console).await, task.json),
        #[cfg(unix)]
        Task::Renew(task) => (crate::renew::renew(task, options, console).await, task.json),
        Task::Ls(task) => (list::list(task, options, console).await, task.json),
        Task::Show(task) => (show::show(task, options, console).await, task.json),
        Task::Watch(task) => (watch::watch(task, options, console).await, task.json),
        Task::Release(task) => (release::release(task, options, console).await, task.json),
        Task::Doctor(task) => (doctor::doctor(task, options, console).await, task.json),
        Task::Completions(task) => (Ok(about::completions(task.shell, console)), false),
        Task::Man(task) => (about::pages(&task.out, console), false),
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
