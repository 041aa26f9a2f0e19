//! Runs a command under a lease, and ends it before the lease becomes free.

mod child;
pub(crate) mod guard;
mod on_lost;
mod running;
mod terminal;
mod terms;

use std::io;

use mongo_lease::{Lease, LeaseManager};

use crate::arguments::{Options, Run};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::{self, Signals};
use crate::waiting::{self, Wanted};
use crate::{clock, connect, text};
use child::{Child, What};
use guard::Guard;
use on_lost::Hook;
use running::{REFUSED, Running, give_back};
use terminal::Terminal;
use terms::TimeLimits;

/// Runs the command under the lease.
pub(crate) async fn run(
    task: &Run,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let terms = TimeLimits::new(task.ttl, task.grace).map_err(Failure::usage)?;
    task.share.check().map_err(Failure::usage)?;
    // Before anything else, so that no signal is missed.
    let mut signals = Signals::listen().map_err(|error| Failure::of_system(REFUSED, &error))?;
    let leases = tokio::select! {
        leases = connect::manager_of(&task.label.owner, options) => leases?,
        signal = signals.next() => return Ok(Exit::Command(signals::exit_code(signal.as_raw()))),
    };
    let wanted = Wanted {
        name: &task.name,
        ttl: task.ttl,
        share: task.share,
        patience: &task.patience,
        owner: &task.label.owner,
    };
    let granted = tokio::select! {
        granted = waiting::acquire(&leases, wanted, console) => granted,
        signal = signals.next() => {
            leases.shutdown().await;
            return Ok(Exit::Command(signals::exit_code(signal.as_raw())));
        }
    };
    let exit = match granted {
        Ok(lease) => under(lease, &leases, task, terms, signals, options, console).await,
        Err(error) => Err(Failure::of(&error, options)),
    };
    leases.shutdown().await;
    exit
}

/// Starts the command, supervises it to its end, and releases the lease.
async fn under(
    lease: Lease,
    leases: &LeaseManager,
    task: &Run,
    terms: TimeLimits,
    signals: Signals,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let failed = |error: mongo_lease::Error| Failure::of(&error, options);
    let token = lease.token().map_err(failed)?;
    let expires_at = text::moment(lease.expires_at().timestamp_millis());
    let variables = [
        ("MONGO_LEASE_NAME", lease.name().to_owned()),
        ("MONGO_LEASE_TOKEN", token.to_string()),
        ("MONGO_LEASE_EXPIRES_AT", expires_at),
    ];
    let what = What { command: &task.command, shell: task.shell, variables };
    let guard = Guard::start(terms.grace)
        .inspect_err(|error| console.say(&format!("cannot start the guard process: {error}")))
        .ok();
    let events = Box::pin(leases.events());
    let child = match Child::start(&what) {
        Ok(child) => child,
        Err(error) => {
            if let Some(guard) = guard {
                guard.dismiss();
            }
            give_back(lease, options, console).await;
            return Err(not_started(&error, task));
        }
    };
    let terminal = Terminal::of_the_process();
    if let Some(terminal) = &terminal {
        terminal.lend(child.group);
        // The command may have used the terminal before it owned it, and been stopped for that.
        child.go_on();
    }
    let kill_by = clock::since_boot() + terms.until_kill(lease.remaining());
    let on_lost = task.on_lost.clone().map(|command| Hook {
        command,
        name: lease.name().to_owned(),
        token: token.to_string(),
    });
    let trouble = None;
    let mut running = Running {
        lease,
        terms,
        child,
        guard,
        signals,
        terminal,
        events,
        kill_by,
        trouble,
        on_lost,
    };
    let end = running.until_the_end(console).await;
    running.finish(end, options, console).await
}

/// Uses the same exit codes as `env`.
fn not_started(error: &io::Error, task: &Run) -> Failure {
    let command = match task.command.first() {
        Some(command) if !task.shell => command.to_string_lossy(),
        Some(_) | None => "sh".into(),
    };
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure { exit: Exit::Command(code), message: format!("{command:?}: {error}") }
}
