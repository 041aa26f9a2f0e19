//! Signals to this process, and changes of its children.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc;

/// The signals that are received, and that `run` passes on. SIGSTOP and SIGKILL cannot be. SIGTSTP stops this process,
/// and the guard watches the command.
const PASSED_ON: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// A signal to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// To be passed on.
    Signal(Signal),
    /// A child process has changed its state.
    Child,
}

/// The signals that this process receives.
pub(crate) struct Signals {
    received: mpsc::UnboundedReceiver<Signal>,
    children: Stream,
    continued: Stream,
}

impl Signals {
    /// Starts to listen.
    ///
    /// Signals that were ignored at our start stay ignored, for us and for the command: so `nohup` works.
    pub(crate) fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let (sender, received) = mpsc::unbounded_channel();
        for passed_on in PASSED_ON {
            if ignored & bit(passed_on) != 0 {
                continue;
            }
            let mut stream = signal(SignalKind::from_raw(passed_on.as_raw()))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(passed_on).is_ok() {}
            });
        }
        Ok(Signals {
            received,
            children: signal(SignalKind::child())?,
            continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        })
    }

    /// The next signal to pass on.
    pub(crate) async fn next(&mut self) -> Signal {
        match self.received.recv().await {
            Some(signal) => signal,
            // All of them were ignored from the start.
            None => std::future::pending().await,
        }
    }

    /// A signal that has come already.
    pub(crate) fn come(&mut self) -> Option<Signal> {
        self.received.try_recv().ok()
    }

    /// The next signal, or a change of a child's state.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn news(&mut self) -> News {
        tokio::select! {
            Some(signal) = self.received.recv() => News::Signal(signal),
            Some(()) = self.children.recv() => News::Child,
            else => std::future::pending().await,
        }
    }

    /// Returns when this process is continued.
    pub(crate) async fn continued(&mut self) {
        if self.continued.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// The exit code for a process that a signal has ended.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

fn bit(signal: Signal) -> u64 {
    1_u64.checked_shl(signal.as_raw().unsigned_abs().saturating_sub(1)).unwrap_or(0)
}

/// The signals that were ignored at the start of this process, as bits. Zero if the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
