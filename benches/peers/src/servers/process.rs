//! A server's process and its folder, which end with our process in any case.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Error};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fmt, fs};

use mongo_lease_measure::Outcome;

/// Arguments: the folder, the program, its arguments.
///
/// Its input is a pipe that we hold, so it ends when we do. Until `wait` no other process can get its id.
const SUPERVISOR: &str = r#"
trap '' HUP INT TERM
folder=$1
shift
"$@" </dev/null >"$folder/output" 2>&1 &
pid=$!
echo "$pid"
exec >/dev/null
read -r end
kill -9 "$pid"
wait "$pid"
rm -rf -- "$folder"
"#;

/// A server's process.
pub(super) struct Process {
    supervisor: Child,
    pid: u32,
    folder: PathBuf,
    program: PathBuf,
}

impl Process {
    /// Starts a program that keeps everything in this folder.
    pub(super) fn start(folder: &Path, program: &Path, arguments: &[String]) -> Outcome<Process> {
        Process::start_with(folder, program, arguments, &[])
    }

    /// The same, with these variables set.
    pub(super) fn start_with(
        folder: &Path,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &OsStr)],
    ) -> Outcome<Process> {
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "mongo-lease-peers"])
            .arg(folder)
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal is for us, and the pipe does the rest.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        let output = supervisor.stdout.take().ok_or_else(|| Error::other("no output"))?;
        BufReader::new(output).read_line(&mut line)?;
        let pid = line.trim().parse()?;
        Ok(Process { supervisor, pid, folder: folder.to_owned(), program: program.to_owned() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Its name, and its last output.
impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = fs::read_to_string(self.folder.join("output")).unwrap_or_default();
        let last = output.lines().next_back().unwrap_or("nothing");
        write!(formatter, "{}, which said last: {last}:", self.program.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _status = self.supervisor.wait();
    }
}

/// A new folder, which the process in it removes.
pub(super) fn folder(server: &str) -> Outcome<PathBuf> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = format!("mongo-lease-peers-{server}-{}-{count}", std::process::id());
    let path = env::temp_dir().join(name);
    fs::create_dir(&path)?;
    Ok(path)
}

/// A port of the loopback that is free now.
pub(super) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The path of a program, if it exists: in the folders of `PATH`, and in these.
pub(super) fn find(program: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(PathBuf::from);
    env::split_paths(&path).chain(folders).map(|it| it.join(program)).find(|it| it.is_file())
}
