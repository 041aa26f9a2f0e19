//! Ends a server and its folder with our process, by pipes alone.
//!
//! 1. One *guard* for each data folder: a `sh` that reads a pipe to its end and then removes the folder. The writing
//!    end is held by us, by every supervisor and by every mongod of this folder (as its error output). So the folder
//!    goes when the last of them is gone.
//! 2. One *supervisor* for each mongod: a `sh` which is its parent, reads a pipe whose only writing end we hold, and at
//!    the end of it kills the mongod and waits for it.
//! 3. The mongod alone holds the writing end of its output, which we read. Its end means that the process is gone,
//!    without a query for a process id that may be another process's by then.
//! 4. Pipes made by the standard library are closed in programs which we start (close on exec), so a worker process
//!    started by a test does not keep a server alive.
//! 5. All of them are in process groups of their own: Ctrl-C in a terminal stops the test, and the pipes do the rest.
//!
//! The supervisor must not kill an unrelated process that got the id of a mongod that crashed long ago. Until `wait`, a
//! plain `sh` leaves the mongod a zombie, whose id is not given out again. For a shell that reaps its children by
//! itself, the command line is checked, which names our folder.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process};

use super::log;
use crate::Error;

/// Arguments: the folder, the file for the error output of the servers.
const GUARD: &str = r#"
trap '' HUP INT TERM
cat >"$2"
rm -rf -- "$1"
"#;

/// Arguments: the folder, the binary, its arguments.
///
/// The identifier is written by the process that becomes the mongod, before it does: else that might write first.
const SUPERVISOR: &str = r#"
trap '' HUP INT TERM
folder=$1
shift
sh -c 'echo "$$"; exec "$@"' "$folder" "$@" </dev/null &
pid=$!
exec >/dev/null
read -r end
if [ -r "/proc/$pid/cmdline" ]; then
    grep -qF -- "$folder" "/proc/$pid/cmdline" && kill -9 "$pid"
else
    ps -o args= -p "$pid" | grep -qF -- "$folder" && kill -9 "$pid"
fi
wait "$pid"
"#;

/// A folder for the data of one server, which is gone when the last user of it is.
#[derive(Debug)]
pub(super) struct DataFolder {
    path: PathBuf,
    guard: Child,
}

impl DataFolder {
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::from_source(&format!("data folder {}", path.display()), error)
        };
        fs::create_dir(path).map_err(failed)?;
        let started = shell(GUARD)
            .args([path, &log::errors(path)])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(guard) => Ok(Self { path: path.to_owned(), guard }),
            Err(error) => {
                let _leftover = fs::remove_dir(path);
                Err(failed(error))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that nobody else may read: a server refuses keys that others can.
    pub(super) fn write_secret(&self, name: &str, text: &str) -> Result<(), Error> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path.join(name);
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Error::from_source(&format!("file {}", path.display()), error))
    }

    /// One more handle on the folder: it stays while this is open.
    fn hold(&self) -> io::Result<Stdio> {
        use std::os::fd::AsFd;
        let pipe = self.guard.stdin.as_ref().map(ChildStdin::as_fd);
        let pipe = pipe.ok_or_else(|| io::Error::other("the guard has no pipe"))?;
        Ok(Stdio::from(pipe.try_clone_to_owned()?))
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _status = self.guard.wait();
    }
}

/// A mongod together with the shell that watches over it. Dropping kills it, and waits.
#[derive(Debug)]
pub(super) struct Supervised {
    supervisor: Child,
    pid: Pid,
    ended: Arc<AtomicBool>,
}

impl Supervised {
    pub(super) fn spawn(
        binary: &Path,
        arguments: &[String],
        folder: &DataFolder,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::from_source("start of mongod", error);
        let mut supervisor = shell(SUPERVISOR)
            .arg(folder.path())
            .arg(binary)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(folder.hold().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let output = supervisor.stdout.take();
        match output.ok_or_else(|| io::Error::other("no output")).and_then(announced) {
            Ok((pid, output)) => Ok(Self { supervisor, pid, ended: watch_end(output) }),
            Err(error) => {
                drop(supervisor.stdin.take());
                let _status = supervisor.wait();
                Err(failed(error))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns when every thread of it has stopped: after the signal alone, a running thread may go on for a moment,
    /// and answer a request.
    pub(super) fn pause(&self) -> Result<(), Error> {
        const PATIENCE: Duration = Duration::from_secs(10);
        self.signal(Signal::STOP)?;
        let deadline = Instant::now() + PATIENCE;
        while !has_stopped(self.pid()) {
            if self.has_ended() || Instant::now() > deadline {
                return Err(Error::from_source("pause", io::Error::other("it does not stop")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(super) fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    pub(super) fn kill(self) {
        drop(self);
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill_process(self.pid, signal).map_err(|error| Error::from_source("signal", error))
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _status = self.supervisor.wait();
    }
}

/// Whether all threads of the process have been stopped by a signal.
#[cfg(target_os = "linux")]
fn has_stopped(pid: u32) -> bool {
    // The state stands behind the name, which may contain anything but ends with the last bracket.
    let is_stopped = |thread: io::Result<fs::DirEntry>| {
        let stat = thread.and_then(|it| fs::read_to_string(it.path().join("stat")));
        stat.is_ok_and(|text| text.rsplit(')').next().is_some_and(|it| it.starts_with(" T")))
    };
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|mut threads| threads.all(is_stopped))
}

#[cfg(not(target_os = "linux"))]
fn has_stopped(pid: u32) -> bool {
    let state = Command::new("ps").args(["-o", "state=", "-p", &pid.to_string()]).output();
    state.is_ok_and(|state| state.stdout.trim_ascii_start().starts_with(b"T"))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    // The first argument after the script is the name under which it complains.
    command.args(["-c", script, "mongo-lease-testbed"]).process_group(0);
    command
}

/// Reads the process id, which is written first.
fn announced(output: ChildStdout) -> io::Result<(Pid, BufReader<ChildStdout>)> {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let pid = line.trim().parse().ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other(format!("no process identifier: {line:?}")))?;
    Ok((pid, output))
}

fn watch_end(mut output: BufReader<ChildStdout>) -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    thread::spawn(move || {
        let mut unread = [0; 4096];
        // Everything of interest is in the log; here only the end matters.
        while output.read(&mut unread).is_ok_and(|count| count > 0) {}
        flag.store(true, Ordering::Release);
    });
    ended
}
