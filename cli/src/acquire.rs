//! Acquires a lease for a script, and hands out its key.

use std::io;
use std::path::Path;

use mongo_lease::{Error, LeaseKey, LeaseManager};
use rustix::process::Signal;

use crate::arguments::{Acquire, Options};
use crate::connect;
use crate::console::{self, Console};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::{Place, StoredKey, file};
use crate::share::Share;
use crate::signals::{self, Signals};
use crate::waiting::{self, Wanted};
use crate::{report, text};

/// Acquires the lease, and prints its key or writes it to a file. If that fails, the lease is released again.
pub(crate) async fn acquire(
    task: &Acquire,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    task.not_with_key.check().map_err(Failure::usage)?;
    let place = Place::of(&options.connection.target("mongo-lease"))?;
    file::check(&task.key, &place, &task.name)?;
    if file::is_stream(&task.key) && console::data_is_closed() {
        let why =
            "standard output is closed, or discards what is written; `--key FILE` writes a file";
        return Err(Failure::of_system("the key cannot be printed", &io::Error::other(why)));
    }
    // Before anything is sent, so that no signal is missed.
    let mut signals = Signals::listen()
        .map_err(|error| Failure::of_system("the operating system refused", &error))?;
    let leases = tokio::select! {
        leases = connect::manager_of(&task.label.owner, options) => leases?,
        signal = signals.next() => return Ok(ended_by(signal)),
    };
    let granted = tokio::select! {
        granted = detached(&leases, task, console) => granted,
        signal = signals.next() => {
            // It releases what has been granted meanwhile.
            leases.shutdown().await;
            return Ok(ended_by(signal));
        }
    };
    let result = match granted {
        Ok((key, expires_at)) => {
            let granted = Granted { stored: StoredKey { place, key }, expires_at };
            granted.hand_out(task, &leases, &mut signals, options, console).await
        }
        Err(error) => Err(Failure::of(&error, options)),
    };
    leases.shutdown().await;
    result
}

/// Acquires the lease, and detaches it. Also returns a lower bound of its expiry.
///
/// # Cancel safety
///
/// If the future is dropped, a grant is released.
async fn detached(
    leases: &LeaseManager,
    task: &Acquire,
    console: &mut Console,
) -> Result<(LeaseKey, String), Error> {
    let wanted = Wanted {
        name: &task.name,
        ttl: task.ttl,
        share: Share::default(),
        patience: &task.patience,
        owner: &task.label.owner,
    };
    let lease = waiting::acquire(leases, wanted, console).await?;
    let expires_at = text::moment(lease.expires_at().timestamp_millis());
    Ok((lease.detach().await?, expires_at))
}

/// A detached lease, whose key nobody has yet.
struct Granted {
    stored: StoredKey,
    expires_at: String,
}

impl Granted {
    async fn hand_out(
        &self,
        task: &Acquire,
        leases: &LeaseManager,
        signals: &mut Signals,
        options: &Options,
        console: &mut Console,
    ) -> Result<Exit, Failure> {
        let is_file = !file::is_stream(&task.key);
        let written = match is_file {
            true => file::write(&task.key, &self.stored),
            false => self.print(task, console),
        };
        if let Err(failure) = written {
            self.take_back(leases, options, console).await;
            return Err(failure);
        }
        if is_file {
            // A signal that came in between: its sender does not count on the key any more.
            if let Some(signal) = signals.come() {
                // Where the lease stays, its key can release it later.
                if self.take_back(leases, options, console).await {
                    remove(&task.key, console);
                }
                return Ok(ended_by(signal));
            }
            self.tell(task, console);
        }
        Ok(Exit::Done)
    }

    /// Prints the key itself, or with `--json` the result that contains it.
    fn print(&self, task: &Acquire, console: &mut Console) -> Result<(), Failure> {
        let key = self.stored.to_json();
        let line = if task.json { self.report(None, &key).to_string() } else { key.to_string() };
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        match console.put(&line) {
            true => Ok(()),
            false => Err(Failure::of_system("the key cannot be printed", &closed())),
        }
    }

    fn tell(&self, task: &Acquire, console: &mut Console) {
        let (name, until) = (self.stored.key.name(), &self.expires_at);
        let file = task.key.display().to_string();
        if task.json {
            let line = self.report(Some(&file), &serde_json::Value::Null).to_string();
            console.put(&line);
        } else {
            console.put(&format!("{name:?} is held until {until}; its key is in {file}"));
        }
    }

    fn report(&self, file: Option<&str>, key: &serde_json::Value) -> serde_json::Value {
        report::acquired(&self.stored.key, &self.expires_at, file, key)
    }

    /// Releases the lease, because nobody gets its key. Returns false if that was not confirmed.
    async fn take_back(
        &self,
        leases: &LeaseManager,
        options: &Options,
        console: &mut Console,
    ) -> bool {
        let key = &self.stored.key;
        let Err(error) = leases.release_detached(key).await else { return true };
        let (name, until) = (key.name(), &self.expires_at);
        let why = Failure::of(&error, options).message;
        console.say(&format!("{name:?} could not be released, and expires at {until}: {why}"));
        false
    }
}

fn remove(path: &Path, console: &mut Console) {
    if let Ok(found) = file::read(path)
        && let Err(failure) = found.remove()
    {
        console.say(&failure.message);
    }
}

fn ended_by(signal: Signal) -> Exit {
    Exit::Command(signals::exit_code(signal.as_raw()))
}
