//! The cost of a server on this machine: time, memory and disk.
//!
//! `cargo run -p mongo-lease-testbed --example start_time` prints the time that it takes to have the binary (with an
//! empty `XDG_CACHE_HOME` and no mongod on the `PATH`, that is the fetch), and five times a start and an end.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mongo_lease_testbed::{Error, Server, find};

const STARTS: usize = 5;

fn main() -> Result<(), Error> {
    let (binary, took) = timed(find::mongod);
    println!("found {} in {} ms", binary?.display(), took.as_millis());
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (server, start) = timed(Server::try_start);
        let server = server?;
        let mongod = server.mongod();
        let memory = mongod.pid().and_then(memory_of);
        let memory = memory.unwrap_or_else(|| "unknown".to_owned());
        let disk = size_of(&mongod.data_folder()) / 1_000_000;
        let ((), end) = timed(|| drop(server));
        println!(
            "primary after {} ms, memory {memory}, disk {disk} MB, gone in {} ms",
            start.as_millis(),
            end.as_millis()
        );
        starts.push(start);
        ends.push(end);
    }
    println!("median: primary after {} ms, gone in {} ms", median(starts), median(ends));
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort();
    times[times.len() / 2].as_millis()
}

/// The memory that the process has in use, where the system says it in `/proc`.
fn memory_of(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().to_owned())
}

/// The size of the files in a folder and below it, in bytes. A server removes files while it is read.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
