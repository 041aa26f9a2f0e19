//! Runs the program: from the command line to the exit code.

use std::ffi::OsString;
use std::time::Duration;

use mongo_lease_migrations::command_line::{self, Answer};
use mongo_lease_migrations::connect::{self, Fault};
use mongo_lease_migrations::indexes::{self, Error, IndexPlan, Progress, Step};
use mongo_lease_migrations::text;
use mongodb::Database;

use crate::about;
use crate::arguments::{Arguments, Options, Task};
use crate::console::Console;
use crate::exit::Exit;
use crate::print;
use crate::report::{self, Status};

/// How often the progress of a long step is reported.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Runs the subcommand of the command line.
pub(crate) async fn run(arguments: Vec<OsString>, console: &mut Console) -> Exit {
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
    if let Some(exit) = about::print(&parsed, console) {
        return exit;
    }
    parsed.options.connection.complete(origins);
    let options = parsed.options;
    let target = options.connection.target("mongo-lease-migrate");
    let task = parsed.task.unwrap_or(Task::Up);
    if task == Task::Print {
        return match connect::check_names(&target) {
            Ok(database) => print_commands(&database, &options, console),
            Err(fault) => end(fault, &options, console),
        };
    }
    let database = match connect::connect(&target).await {
        Ok(connected) => connected.database,
        Err(fault) => return end(fault, &options, console),
    };
    match work(task, &database, &options, console).await {
        Ok(exit) => exit,
        Err(error) => {
            let reason = options.connection.veil(&error.to_string());
            end(Fault::OutOfReach(reason), &options, console)
        }
    }
}

fn print_commands(database: &str, options: &Options, console: &mut Console) -> Exit {
    if options.json {
        console.put(&print::for_programs(database, &options.connection.collection).to_string());
    } else {
        console.put(&print::for_mongosh(database, &options.connection.collection));
    }
    Exit::Done
}

async fn work(
    task: Task,
    database: &Database,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Error> {
    let plan = indexes::plan(database, &options.connection.collection).await?;
    let status = Status::of(&plan);
    if task == Task::Up && status == Status::Pending {
        return up(&plan, database, options, console).await;
    }
    put(&plan, status, options, console);
    Ok(match (task, status) {
        (_, Status::UpToDate | Status::Migrated) => Exit::Done,
        (Task::Plan, Status::Pending) => Exit::Done,
        (_, Status::Pending | Status::Blocked) => Exit::Drift,
    })
}

async fn up(
    plan: &IndexPlan,
    database: &Database,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Error> {
    let changes: Vec<&Step> = plan.steps().iter().filter(|step| step.changes_existing()).collect();
    if !changes.is_empty() && !options.yes {
        for step in &changes {
            console.say(&step.to_string());
        }
        let answer = console.ask("change the existing indexes?");
        if answer != Some(true) {
            if answer.is_none() {
                console.say("nothing was changed: --yes changes existing indexes without asking");
            }
            put(plan, Status::Pending, options, console);
            return Ok(Exit::Drift);
        }
    }
    let mut tell_at = Duration::ZERO;
    match plan.apply(|progress| tell(&progress, &mut tell_at, console)).await {
        Ok(()) => {
            if options.json {
                console.put(&report::plan(plan, Status::Migrated).to_string());
            } else {
                let (database, collection) = (plan.database(), plan.collection());
                console.put(&format!("{database}.{collection} has both indexes"));
            }
            Ok(Exit::Done)
        }
        // A person must decide; a new plan shows the obstacles.
        Err(Error::Blocked { problem, .. }) => {
            console.say(&format!("error: {problem}"));
            let found = indexes::plan(database, &options.connection.collection).await?;
            put(&found, Status::of(&found), options, console);
            Ok(Exit::Drift)
        }
        Err(error) => Err(error),
    }
}

/// Prints the result: the plan and its state.
fn put(plan: &IndexPlan, status: Status, options: &Options, console: &mut Console) {
    if options.json {
        console.put(&report::plan(plan, status).to_string());
    } else {
        console.put(&plan.to_string());
    }
}

fn tell(progress: &Progress<'_>, tell_at: &mut Duration, console: &mut Console) {
    if let Progress::Started(step) = progress {
        *tell_at = Duration::ZERO;
        console.say(&format!("{step} …"));
    }
    // Completed steps are in the result.
    if let Progress::Waiting { step, elapsed, documents, .. } = progress
        && *elapsed >= *tell_at
    {
        *tell_at = *elapsed + TELL_EVERY;
        let whole = Duration::from_secs(elapsed.as_secs());
        let (index, elapsed) = (step.index(), text::duration(whole));
        console.say(&match documents {
            Some((done, total)) => {
                format!("  {index}: {done} of {total} documents after {elapsed}")
            }
            None => format!("  {index}: still running after {elapsed}"),
        });
    }
}

fn end(fault: Fault, options: &Options, console: &mut Console) -> Exit {
    let (message, exit) = match fault {
        Fault::Usage(message) => (message, Exit::Usage),
        Fault::OutOfReach(message) => (message, Exit::OutOfReach),
    };
    console.say(&format!("error: {message}"));
    if options.json {
        console.put(&report::failure(&message).to_string());
    }
    exit
}
