//! A running command under its lease: supervised to its end, and ended before the lease becomes free.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use mongo_lease::{Event, Lease, Released};
use rustix::process::{Signal, kill_current_process_group};
use tokio::time::{sleep, timeout};

use super::child::Child;
use super::guard::{Guard, Order};
use super::on_lost::Hook;
use super::terminal::Terminal;
use super::terms::TimeLimits;
use crate::arguments::Options;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::{self, News, Signals};
use crate::{clock, text};

/// How long to wait for the release of a lost or nearly lost lease. It expires anyway.
const RELEASE_LATE: Duration = Duration::from_secs(1);
/// The longest single sleep. Timers stop while the machine is suspended, but the lease's clock does not.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How a message about a refused call begins.
pub(super) const REFUSED: &str = "the operating system refused";
/// How long to wait until the stop of this process takes effect.
const STOPPING: Duration = Duration::from_millis(100);

/// A running command, and its resources.
pub(super) struct Running {
    pub(super) lease: Lease,
    pub(super) terms: TimeLimits,
    pub(super) child: Child,
    pub(super) guard: Option<Guard>,
    pub(super) signals: Signals,
    pub(super) terminal: Option<Terminal>,
    pub(super) events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    /// When SIGKILL is due after the newest renewal, counted from boot.
    pub(super) kill_by: Duration,
    /// Why the last renewal failed, if it did.
    pub(super) trouble: Option<String>,
    /// The command for the loss of the lease.
    pub(super) on_lost: Option<Hook>,
}

/// Why the supervision ended.
pub(super) enum End {
    /// The command has ended.
    OfCommand(io::Result<ExitStatus>),
    /// The lease has ended, or is about to.
    OfLease,
}

impl Running {
    /// Supervises the command to its end, or to that of the lease.
    pub(super) async fn until_the_end(&mut self, console: &mut Console) -> End {
        loop {
            let remaining = self.lease.remaining();
            let until_term = self.terms.until_term(remaining);
            if !remaining.is_zero() {
                self.put_off(remaining, until_term);
            }
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    // At this time the guard may have ended the command, so its exit code does not count.
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

    /// Moves the end of the command after a renewal.
    fn put_off(&mut self, remaining: Duration, until_term: Duration) {
        let now = clock::since_boot();
        self.kill_by = now + self.terms.until_kill(remaining);
        // A little later than ours: the guard acts only if we do not.
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

    /// Reports failing renewals, once for each series of failures.
    // The library may add events, and the others do not concern the user of the command.
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

    /// Stops this process too if the terminal has stopped the command. The shell waits for this process, and not for
    /// the command. While it is stopped, no renewal happens, and the guard ends the command in time.
    async fn look_for_stop(&mut self) {
        let Some(terminal) = &self.terminal else { return };
        if !self.child.was_stopped() {
            return;
        }
        if !terminal.is_ours() {
            terminal.take_back(self.child.group);
            let _ = kill_current_process_group(Signal::TSTP);
            // The system does not stop a process that nothing could continue: then the wait ends at once.
            let _ = timeout(STOPPING, self.signals.continued()).await;
        }
        terminal.lend(self.child.group);
        // If the lease has ended meanwhile, the command is ended before it can do anything.
        if !self.terms.until_term(self.lease.remaining()).is_zero() {
            self.child.go_on();
        }
    }

    /// Ends what is left of the command, and releases the lease. If the lease was lost, the hook runs beside that.
    pub(super) async fn finish(
        mut self,
        end: End,
        options: &Options,
        console: &mut Console,
    ) -> Result<Exit, Failure> {
        let hook = self.on_lost.take().filter(|_| matches!(end, End::OfLease));
        let reason = options.connection.veil(&self.why_lost());
        let run_hook = async {
            match &hook {
                Some(hook) => hook.run(&reason).await,
                None => None,
            }
        };
        // The signals to the command go out first.
        let (ended, complaint) = tokio::join!(self.stop(end, options, console), run_hook);
        if let Some(complaint) = complaint {
            console.say(&complaint);
        }
        ended
    }

    async fn stop(
        mut self,
        end: End,
        options: &Options,
        console: &mut Console,
    ) -> Result<Exit, Failure> {
        let kill_at = self.kill_by.min(clock::since_boot() + self.terms.grace);
        let is_lost = matches!(end, End::OfLease);
        if self.child.has_group() {
            if !is_lost {
                // A process that runs without the lease may conflict with the next holder.
                console.say("the command left processes behind: ending them");
            }
            // From now on the guard only sends the final SIGKILL.
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
                status.map(exit_of).map_err(|error| Failure::of_system(REFUSED, &error))
            }
            End::OfLease => {
                let message = format!("{}; the command was ended", self.why_lost());
                let _ = timeout(RELEASE_LATE, self.lease.release()).await;
                Err(Failure { exit: Exit::Lost, message })
            }
        }
    }

    fn why_lost(&self) -> String {
        match (self.lease.check(), &self.trouble) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Some(trouble)) => {
                format!("lease {:?} could not be renewed: {trouble}", self.lease.name())
            }
            (Ok(()), None) => format!("lease {:?} was not renewed in time", self.lease.name()),
        }
    }
}

/// Releases the lease after the command, and reports a release that failed.
pub(super) async fn give_back(lease: Lease, options: &Options, console: &mut Console) {
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
