//! Processes of their own that hold and wait: this program, started again.

use std::process::Command;
use std::time::Duration;

use mongo_lease_testbed::LineProcess;

use crate::Outcome;

/// The line that a worker writes when it is connected.
pub const READY: &str = "ready";

/// How long a worker has for one answer: it may renew for some periods before it answers.
const PATIENCE: Duration = Duration::from_secs(600);

/// Starts this program again with these variables, by which it knows that it is a worker. It is not [`READY`] yet.
///
/// # Errors
///
/// When it cannot be started.
pub fn start(variables: &[(&str, &str)]) -> Outcome<LineProcess> {
    let mut program = Command::new(std::env::current_exe()?);
    program.envs(variables.iter().copied());
    Ok(LineProcess::start(program)?.with_patience(PATIENCE))
}

/// Waits until a worker is [`READY`].
///
/// # Errors
///
/// When it ends instead, or says something else.
pub async fn until_ready(worker: &mut LineProcess) -> Outcome<()> {
    let line = worker.line().await?;
    if line == READY { Ok(()) } else { Err(format!("a worker is not ready: {line}").into()) }
}
