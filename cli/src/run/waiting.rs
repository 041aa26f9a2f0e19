//! Waiting: for the lease, with word of who has it.

use std::convert::Infallible;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mongo_lease::{Attempt, Error, Lease, LeaseInfo, LeaseManager};
use tokio::time::{Instant, sleep};

use crate::arguments::{Run, Wait};
use crate::console::Console;
use crate::{list, text};

/// A lease that is granted sooner was not waited for.
const QUIET: Duration = Duration::from_millis(300);
/// How often it is looked who has it, while somebody looks on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the spinner turns.
const TURN_EVERY: Duration = Duration::from_millis(100);

/// Asks for the lease, and waits for it as long as the command line says.
///
/// # Cancel safety
///
/// Dropping the future gives back what was granted.
pub(super) async fn acquire(
    leases: &LeaseManager,
    task: &Run,
    console: &mut Console,
) -> Result<Lease, Error> {
    let asking = leases.acquire(&task.name).ttl(task.ttl);
    let asking = match task.wait {
        _ if task.no_wait => {
            return match asking.try_once().await? {
                Attempt::Granted(lease) => Ok(lease),
                Attempt::Busy(info) => Err(Error::Busy(info)),
            };
        }
        Wait::For(longest) => asking.wait(longest),
        Wait::Forever => asking.wait_forever(),
    };
    let granted = async {
        let lease = asking.await?;
        // One that was handed on in line begins with less, and the command is to have all of it.
        if lease.remaining() < task.ttl / 4 * 3 {
            lease.renew().await?;
        }
        Ok(lease)
    };
    tokio::select! {
        biased;
        granted = granted => granted,
        never = tell(leases, task, console) => match never {},
    }
}

/// Tells who has it: once in a log, and again and again on a terminal. It does not end, for the wait does not end with
/// it.
async fn tell(leases: &LeaseManager, task: &Run, console: &mut Console) -> Infallible {
    let started = Instant::now();
    sleep(QUIET).await;
    while !console.talk_is_seen() {
        if let Some(info) = look(leases, task).await {
            let holder = describe(Some(&info), Instant::now());
            console.say(&format!("waiting for {:?}: {holder}", task.name));
            return std::future::pending().await;
        }
        sleep(LOOK_EVERY).await;
    }
    let spinner = Spinner::new();
    loop {
        let looked = Instant::now();
        let info = look(leases, task).await;
        // The time that is left goes on between two looks.
        while looked.elapsed() < LOOK_EVERY {
            let left = patience(task, started);
            let holder = describe(info.as_ref(), looked);
            spinner.show(format!("waiting{left} for {:?}: {holder}", task.name));
            sleep(TURN_EVERY).await;
        }
    }
}

/// Who else has it.
async fn look(leases: &LeaseManager, task: &Run) -> Option<LeaseInfo> {
    // Where the database does not answer, the call that waits will say so.
    let info = leases.get(&task.name).await.ok().flatten()?;
    // It may have been granted to us, and the answer be on its way.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let ours = format!("{}@{host}:{}", task.owner, std::process::id());
    (info.owner.as_ref() != Some(&ours)).then_some(info)
}

fn describe(info: Option<&LeaseInfo>, looked: Instant) -> String {
    let Some(info) = info else { return "its holder is unknown".to_owned() };
    let holder = list::owner(info);
    match info.remaining {
        Some(remaining) => {
            let left = text::span(remaining.saturating_sub(looked.elapsed()));
            format!("{holder}, {left} left")
        }
        None => holder,
    }
}

fn patience(task: &Run, started: Instant) -> String {
    match task.wait {
        Wait::For(longest) => {
            format!(" {} more", text::span(longest.saturating_sub(started.elapsed())))
        }
        Wait::Forever => String::new(),
    }
}

/// A line on stderr that turns, and that has gone when this has.
struct Spinner(ProgressBar);

impl Spinner {
    fn new() -> Spinner {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Spinner(bar)
    }

    fn show(&self, message: String) {
        self.0.set_message(message);
        self.0.tick();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
