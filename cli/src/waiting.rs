//! Waits for the lease, and shows its holder meanwhile.

use std::convert::Infallible;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mongo_lease::{Error, Lease, LeaseInfo, LeaseManager};
use tokio::time::{Instant, sleep};

use crate::arguments::{Patience, Wait};
use crate::console::Console;
use crate::share::Share;
use crate::{list, text};

/// A grant within this time is not reported as a wait.
const QUIET: Duration = Duration::from_millis(300);
/// How often the holder is read, if messages go to a terminal.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the spinner turns.
const TURN_EVERY: Duration = Duration::from_millis(100);

/// The lease to acquire.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) ttl: Duration,
    pub(crate) share: Share,
    pub(crate) patience: &'a Patience,
    /// The label of the holder.
    pub(crate) owner: &'a str,
}

/// Acquires the lease, and waits for it as long as the command line says.
///
/// # Cancel safety
///
/// If the future is dropped, a grant is released.
pub(crate) async fn acquire(
    leases: &LeaseManager,
    wanted: Wanted<'_>,
    console: &mut Console,
) -> Result<Lease, Error> {
    let asking = wanted.share.acquire(leases, wanted.name).ttl(wanted.ttl);
    let asking = match wanted.patience.wait {
        _ if wanted.patience.no_wait => return asking.wait(Duration::ZERO).await,
        Wait::For(longest) => asking.wait(longest),
        Wait::Forever => asking.wait_forever(),
    };
    let granted = async {
        let lease = asking.await?;
        // A handed-off lease begins with a shorter term, but the work must start with the whole ttl.
        if lease.remaining() < wanted.ttl / 4 * 3 {
            lease.renew().await?;
        }
        Ok(lease)
    };
    tokio::select! {
        biased;
        granted = granted => granted,
        never = tell(leases, wanted, console) => match never {},
    }
}

/// Shows the holder: once in a log, repeatedly on a terminal. It never returns; the caller drops it.
async fn tell(leases: &LeaseManager, wanted: Wanted<'_>, console: &mut Console) -> Infallible {
    let started = Instant::now();
    sleep(QUIET).await;
    while !console.talk_is_seen() {
        if let Some(info) = look(leases, wanted).await {
            let holder = describe(Some(&info), Instant::now());
            console.say(&format!("waiting for {:?}: {holder}", wanted.name));
            return std::future::pending().await;
        }
        sleep(LOOK_EVERY).await;
    }
    let spinner = Spinner::new();
    loop {
        let looked = Instant::now();
        let info = look(leases, wanted).await;
        // Between two reads, the remaining time is counted down here.
        while looked.elapsed() < LOOK_EVERY {
            let left = patience(wanted, started);
            let holder = describe(info.as_ref(), looked);
            spinner.show(format!("waiting{left} for {:?}: {holder}", wanted.name));
            sleep(TURN_EVERY).await;
        }
    }
}

/// Reads the present holder.
async fn look(leases: &LeaseManager, wanted: Wanted<'_>) -> Option<LeaseInfo> {
    // If the database does not answer, the waiting acquire reports that.
    let info = leases.get(wanted.name).await.ok().flatten()?;
    // The lease may have been granted to us already, and the answer may be on its way.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let ours = format!("{}@{host}:{}", wanted.owner, std::process::id());
    let owners = info.holders.iter().map(|holder| &holder.owner).chain([&info.owner]);
    let is_ours = owners.flatten().any(|owner| *owner == ours);
    (!is_ours).then_some(info)
}

fn describe(info: Option<&LeaseInfo>, looked: Instant) -> String {
    let Some(info) = info else { return "its holder is unknown".to_owned() };
    let holder = list::owner(info);
    if let Some(first) = info.holders.iter().map(|holder| holder.remaining).min() {
        let left = text::span(first.saturating_sub(looked.elapsed()));
        return format!("{holder} are in use, and the first holder has {left} left");
    }
    match info.remaining {
        Some(remaining) => {
            let left = text::span(remaining.saturating_sub(looked.elapsed()));
            format!("{holder}, {left} left")
        }
        None => holder,
    }
}

fn patience(wanted: Wanted<'_>, started: Instant) -> String {
    match wanted.patience.wait {
        Wait::For(longest) => {
            format!(" {} more", text::span(longest.saturating_sub(started.elapsed())))
        }
        Wait::Forever => String::new(),
    }
}

/// A spinner on stderr. Dropping it removes the line.
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
