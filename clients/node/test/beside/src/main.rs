//! What the tests of the Node client have beside it, by the first argument: `server` runs a server until its input
//! ends; `hold` and `wait` are Rust processes at the same names; `texts` and `commands` tell what the library says and
//! sends.

#![allow(clippy::print_stdout, reason = "it talks to the tests by lines")]

mod commands;
mod process;
mod texts;

use std::io::{self, Read};

use mongo_lease_testbed::Server;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["server"] => serve(&Server::start()),
        ["standalone"] => serve(&Server::builder().standalone().start()),
        ["process", uri, database] => in_runtime(process::run(uri, database)),
        ["texts"] => in_runtime(texts::tell()),
        ["commands", uri, database] => in_runtime(commands::send(uri, database)),
        _ => Err(format!("no such role: {arguments:?}").into()),
    }
}

/// Tells the server's URI, and keeps it until the input ends.
fn serve(server: &Server) -> Result<(), Failed> {
    println!("{}", server.uri());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn in_runtime(work: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
