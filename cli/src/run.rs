//! Run: a command under a lease. It is dead before the lease can be anybody else's.

mod child;
pub(crate) mod guard;
mod signals;
mod terminal;
mod terms;
mod waiting;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use mongo_lease::{Event, Lease, LeaseManager, Released};
use rustix::process::{Signal, kill_current_process_group};
use tokio::time::{sleep, timeout};

use crate::arguments::{Options, Run};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{clock, connect, text};
use child::{Child, What};
use guard::{Guard, Order};
use signals::{News, Signals};
use terminal::Terminal;
use terms::Terms;

/// How long a release is waited for when the lease is lost, or nearly: it ends by itself.
const RELEASE_LATE: Duration = Duration::from_secs(1);
/// The longest sleep in one piece: timers stand still while the machine is suspended, and the lease's clock goes on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a stop of this process may take to come about.
const STOPPING: Duration = Duration::from_millis(100);

/// Runs the command under the lease.
pub(crate) async fn run(
    task: &Run,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let terms = Terms::new(task.ttl, task.grace).map_err(Failure::usage)?;
    // Before anything else: none must be missed.
    let mut signals = Signals::listen().map_err(|error| of_system(&error))?;
    let leases = tokio::select! {
        leases = manager(task, options) => leases?,
        signal = signals.next() => return Ok(Exit::Command(signals::exit_code(signal.as_raw()))),
    };
    let granted = tokio::select! {
        granted = waiting::acquire(&leases, task, console) => granted,
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

async fn manager(task: &Run, options: &Options) -> Result<LeaseManager, Failure> {
    let database = connect::connect(options).await?.database;
    let builder = connect::builder(&database, options).owner(&task.owner);
    builder.build().await.map_err(|error| Failure::of(&error, options))
}

/// Starts the command, stays with it to its end, and gives the lease back.
async fn under(
    lease: Lease,
    leases: &LeaseManager,
    task: &Run,
    terms: Terms,
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
        // It may have asked for the terminal before it had it, and been stopped for that.
        child.go_on();
    }
    let kill_by = clock::since_boot() + terms.until_kill(lease.remaining());
    let mut running =
        Running { lease, terms, child, guard, signals, terminal, events, kill_by, trouble: None };
    let end = running.until_the_end(console).await;
    running.finish(end, options, console).await
}

/// A command that runs, and what belongs to it.
struct Running {
    lease: Lease,
    terms: Terms,
    child: Child,
    guard: Option<Guard>,
    signals: Signals,
    terminal: Option<Terminal>,
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    /// When SIGKILL is due, as far as renewals have put it off; counted from the start of the machine.
    kill_by: Duration,
    /// Why the last renewal failed, if it did.
    trouble: Option<String>,
}

/// How it comes to an end.
enum End {
    /// The command has ended.
    OfCommand(io::Result<ExitStatus>),
    /// The lease has ended, or is about to.
    OfLease,
}

impl Running {
    async fn until_the_end(&mut self, console: &mut Console) -> End {
        loop {
            let remaining = self.lease.remaining();
            let until_term = self.terms.until_term(remaining);
            if !remaining.is_zero() {
                self.put_off(remaining, until_term);
            }
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    // So late it may be that the guard has ended it: that is no end of its own.
                    let is_late = self.terms.until_term(self.lease.remaining()).is_zero();
                    return if is_late { End::OfLease } else { End::OfCommand(status) };
                }
                () = std::future::ready(()), if until_term.is_zero() => return End::OfLease,
                news = self.signals.news() => match news {
                    News::Signal(signal) => self.child.pass_on(signal),
                    News::Child => self.look_for_stop().await,
                },
                _reason = self.lease.lost() => return End::OfLease,
                Some(event) = self.events.next() => self.listen(event, console),
                () = sleep(until_term.min(LOOK_EVERY)) => {}
            }
        }
    }

    /// A renewal may have put the end off.
    fn put_off(&mut self, remaining: Duration, until_term: Duration) {
        let now = clock::since_boot();
        self.kill_by = now + self.terms.until_kill(remaining);
        // A little later than we: it comes in where we do not.
        let later = self.terms.reserve / 2;
        let (term_at, kill_at) = (now + until_term + later, self.kill_by + later);
        self.order(term_at, kill_at);
    }

    fn order(&mut self, term_at: Duration, kill_at: Duration) {
        let group = self.child.group;
        if let Some(guard) = &mut self.guard {
            guard.order(Order { group, term_at, kill_at });
        }
    }

    /// Tells of renewals that fail, once for each time that it begins.
    // The library's list is open, and the rest of it is not for the command's user.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn listen(&mut self, event: Event, console: &mut Console) {
        match event {
            Event::RenewalFailed { remaining, reason, .. } => {
                let left = text::span(remaining);
                if self.trouble.replace(reason.clone()).is_none() {
                    let name = self.lease.name();
                    console.say(&format!("{name:?} was not renewed, {left} left: {reason}"));
                }
            }
            Event::Renewed { .. } if self.trouble.take().is_some() => {
                console.say(&format!("{:?} is renewed again", self.lease.name()));
            }
            _ => {}
        }
    }

    /// When the command was stopped from the terminal, so are we: the shell waits for us, and not for the command.
    /// While we are stopped nobody renews the lease, and the guard ends the command in time.
    async fn look_for_stop(&mut self) {
        let Some(terminal) = &self.terminal else { return };
        if !self.child.was_stopped() {
            return;
        }
        if !terminal.is_ours() {
            terminal.take_back(self.child.group);
            let _ = kill_current_process_group(Signal::TSTP);
            // Nobody stops a process that nobody could continue: then this is over at once.
            let _ = timeout(STOPPING, self.signals.continued()).await;
        }
        terminal.lend(self.child.group);
        // A lease that has ended meanwhile ends the command before it has done anything.
        if !self.terms.until_term(self.lease.remaining()).is_zero() {
            self.child.go_on();
        }
    }

    async fn finish(
        mut self,
        end: End,
        options: &Options,
        console: &mut Console,
    ) -> Result<Exit, Failure> {
        let kill_at = self.kill_by.min(clock::since_boot() + self.terms.grace);
        let is_lost = matches!(end, End::OfLease);
        if self.child.has_group() {
            if !is_lost {
                // What works without its lease works against somebody.
                console.say("the command left processes behind: ending them");
            }
            // From here on it has the last word only.
            self.order(Duration::from_secs(u64::from(u32::MAX)), kill_at + self.terms.reserve / 2);
            self.child.end(kill_at).await;
        }
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.child.group);
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        match end {
            End::OfCommand(status) => {
                give_back(self.lease, options, console).await;
                status.map(exit_of).map_err(|error| of_system(&error))
            }
            End::OfLease => {
                let message = self.why_lost();
                let _ = timeout(RELEASE_LATE, self.lease.release()).await;
                Err(Failure { exit: Exit::Lost, message })
            }
        }
    }

    fn why_lost(&self) -> String {
        let why = match (self.lease.check(), &self.trouble) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Some(trouble)) => {
                format!("lease {:?} could not be renewed: {trouble}", self.lease.name())
            }
            (Ok(()), None) => format!("lease {:?} was not renewed in time", self.lease.name()),
        };
        format!("{why}; the command was ended")
    }
}

async fn give_back(lease: Lease, options: &Options, console: &mut Console) {
    let name = lease.name().to_owned();
    let until = text::moment(lease.expires_at().timestamp_millis());
    match lease.release().await {
        Ok(Released::NotHeld) => {
            console.say(&format!("{name:?} was no longer held when the command ended"));
        }
        Ok(_) => {}
        Err(error) => {
            let why = Failure::of(&error, options).message;
            console.say(&format!("{name:?} could not be released, and expires at {until}: {why}"));
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let signal = status.signal().map(signals::exit_code);
    Exit::Command(code.or(signal).unwrap_or(u8::MAX))
}

/// The numbers that `env` has for it.
fn not_started(error: &io::Error, task: &Run) -> Failure {
    let command = match task.command.first() {
        Some(command) if !task.shell => command.to_string_lossy(),
        Some(_) | None => "sh".into(),
    };
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure { exit: Exit::Command(code), message: format!("{command:?}: {error}") }
}

fn of_system(error: &io::Error) -> Failure {
    Failure { exit: Exit::System, message: format!("the operating system refused: {error}") }
}
