//! The guard: a second process that ends the command if `mongo-lease run` cannot. `mongo-lease run` may be killed,
//! stopped or starved. Then the lease is not renewed, and the command must still end.
//!
//! It reads orders from a pipe, one per line: the command's group, and when to send it SIGTERM and SIGKILL, in
//! nanoseconds since boot. Each order replaces the one before. If the pipe ends without `done`, `mongo-lease run` has
//! died, and the guard ends the command at once.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::sleep;

use super::child::{kill, tell_to_end};
use crate::arguments;
use crate::clock;
use crate::exit::Exit;
use crate::signals::Signals;

/// The last order: nothing more is to be done.
const DONE: &str = "done";
/// The longest single sleep. Timers stop while the machine is suspended, but the clock does not.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How often to check whether a group has gone.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The handle of `mongo-lease run` to its guard.
pub(super) struct Guard {
    process: Process,
}

/// An order: which group to end, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) group: Pid,
    pub(super) term_at: Duration,
    pub(super) kill_at: Duration,
}

impl Guard {
    /// Starts the guard process.
    pub(super) fn start(grace: Duration) -> io::Result<Guard> {
        let mut command = Command::new(own_binary()?);
        // The process list shows the program's usual name.
        command.arg0("mongo-lease");
        command.arg("guard").arg(grace.as_millis().to_string()).env_remove("MONGODB_URI");
        // In a group of its own, so that signals of the terminal to our group do not reach it.
        command.process_group(0);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        if let Some(pipe) = &process.stdin {
            // A stopped guard must not block us.
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Guard { process })
    }

    /// Sends an order.
    pub(super) fn order(&mut self, order: Order) {
        self.write(&order.to_string());
    }

    /// Ends the guard.
    pub(super) fn dismiss(mut self) {
        self.write(DONE);
        drop(self.process.stdin.take());
        // It ends at once, unless it is stopped.
        let _ = self.process.try_wait();
    }

    fn write(&mut self, line: &str) {
        if let Some(pipe) = &mut self.process.stdin {
            // Short enough to be written whole or not at all. If the guard has gone, we go on without it.
            let _ = pipe.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// The path of this program, valid even if its file has been replaced since.
fn own_binary() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}

impl std::fmt::Display for Order {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Order { group, term_at, kill_at } = self;
        write!(
            formatter,
            "{} {} {}",
            group.as_raw_nonzero(),
            term_at.as_nanos(),
            kill_at.as_nanos()
        )
    }
}

impl Order {
    fn parse(line: &str) -> Option<Order> {
        let mut words = line.split(' ');
        let group = Pid::from_raw(words.next()?.parse().ok()?)?;
        let term_at = Duration::from_nanos(words.next()?.parse().ok()?);
        let kill_at = Duration::from_nanos(words.next()?.parse().ok()?);
        Some(Order { group, term_at, kill_at })
    }

    /// The order to follow after `mongo-lease run` has died.
    fn when_orphaned(self, now: Duration, grace: Duration) -> Order {
        Order { term_at: now.min(self.term_at), kill_at: self.kill_at.min(now + grace), ..self }
    }
}

/// Runs the guard until it is dismissed, or has ended the command.
pub(crate) async fn stand(task: &arguments::Guard) -> Exit {
    // Signals that end sessions and services must not end the guard: listening to a signal prevents that.
    let Ok(_signals) = Signals::listen() else { return Exit::System };
    let grace = Duration::from_millis(task.grace_ms);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut order: Option<Order> = None;
    let mut is_orphaned = false;
    let mut has_told = false;
    loop {
        let now = clock::since_boot();
        if let Some(order) = order {
            if now >= order.kill_at {
                kill(order.group);
                return Exit::Done;
            }
            if now >= order.term_at && !has_told {
                tell_to_end(order.group);
                has_told = true;
            }
            if is_orphaned && test_kill_process_group(order.group).is_err() {
                return Exit::Done;
            }
        } else if is_orphaned {
            return Exit::Done;
        }
        let nap = nap(order, now, has_told, is_orphaned);
        tokio::select! {
            line = lines.next_line(), if !is_orphaned => match line {
                Ok(Some(line)) if line == DONE => return Exit::Done,
                Ok(Some(line)) => order = Order::parse(&line).or(order),
                Ok(None) | Err(_) => {
                    is_orphaned = true;
                    order = order.map(|order| order.when_orphaned(clock::since_boot(), grace));
                }
            },
            () = sleep(nap) => {}
        }
    }
}

fn nap(order: Option<Order>, now: Duration, has_told: bool, is_orphaned: bool) -> Duration {
    let longest = if is_orphaned { LOOK_EVERY } else { SLEEP_MAX };
    let Some(order) = order else { return longest };
    let next = if has_told { order.kill_at } else { order.term_at.min(order.kill_at) };
    next.saturating_sub(now).min(longest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::Pid;

    use super::Order;

    fn order(term_at: u64, kill_at: u64) -> Order {
        Order {
            group: Pid::from_raw(42).unwrap(),
            term_at: Duration::from_secs(term_at),
            kill_at: Duration::from_secs(kill_at),
        }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = order(7, 9);
        assert_eq!(Order::parse(&order.to_string()), Some(order));
        for garbage in ["", "42", "42 1", "0 1 2", "x 1 2", "42 1 -2"] {
            assert_eq!(Order::parse(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn an_orphan_has_the_grace_and_never_longer_than_the_lease() {
        let grace = Duration::from_secs(5);
        let early = order(20, 25).when_orphaned(Duration::from_secs(10), grace);
        assert_eq!(early, order(10, 15));
        let late = order(20, 25).when_orphaned(Duration::from_secs(22), grace);
        assert_eq!(late, order(20, 25));
    }
}
