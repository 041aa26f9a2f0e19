//! A child process that is told what to do in lines, and answers in lines.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::Error;

/// How much of the error output an error's text repeats, in lines.
const SHOWN: usize = 40;
/// How long a process that has ended its output may take to end its error output, before an error is returned.
const LAST_ERRORS: Duration = Duration::from_secs(1);

/// A child process with pipes for its input, output and error output.
///
/// The process alone is killed when this is dropped. Its error output is also passed on to ours, line by line, and its
/// end is repeated in the text of each [`Error`]. Needs a Tokio runtime with I/O and time.
///
/// ```no_run
/// # async fn example() -> Result<(), mongo_lease_testbed::Error> {
/// use mongo_lease_testbed::{LineProcess, command};
///
/// let mut echo = LineProcess::start(command("cat"))?;
/// echo.send("hello").await?;
/// assert_eq!(echo.line().await?, "hello");
/// let ended = echo.ended().await?;
/// assert!(ended.status.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LineProcess {
    process: Child,
    input: Option<LineInput>,
    output: Option<LineOutput>,
    errors: UnboundedReceiver<String>,
    passing: JoinHandle<()>,
    context: Context,
}

/// The input of a [`LineProcess`]. Dropping it is the end of that input.
#[derive(Debug)]
pub struct LineInput {
    pipe: ChildStdin,
    context: Context,
}

/// The output of a [`LineProcess`].
#[derive(Debug)]
pub struct LineOutput {
    lines: Lines<BufReader<ChildStdout>>,
    context: Context,
}

/// How a [`LineProcess`] ended, with all of its output that was not read before.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// The rest of the output.
    pub output: String,
    /// The rest of the error output.
    pub errors: String,
}

/// How an error text describes the process, and how long it has for an answer.
#[derive(Clone, Debug)]
struct Context {
    program: String,
    patience: Duration,
    last_errors: Arc<Mutex<Vec<String>>>,
}

impl LineProcess {
    /// How long a process has for one answer, unless [`with_patience`](Self::with_patience) says otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(60);

    /// Starts the process with pipes for its input, output and error output.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start(command: impl Into<Command>) -> Result<Self, Error> {
        Self::start_with(command.into(), Stdio::piped())
    }

    /// Starts the process without an input: it reads from the null device.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start_without_input(command: impl Into<Command>) -> Result<Self, Error> {
        Self::start_with(command.into(), Stdio::null())
    }

    fn start_with(mut command: Command, input: Stdio) -> Result<Self, Error> {
        let program = program_of(&command);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let started = command.spawn();
        let mut process = started.map_err(|error| Error::from_source(&program, error))?;
        let last_errors = Arc::default();
        let context = Context { program, patience: Self::PATIENCE, last_errors };
        let missing = || Error::new(format!("{} has no output", context.program));
        let output = process.stdout.take().ok_or_else(missing)?;
        let error_output = process.stderr.take().ok_or_else(missing)?;
        let (sender, errors) = unbounded_channel();
        let passing = tokio::spawn(pass_on(error_output, Arc::clone(&context.last_errors), sender));
        let input = process.stdin.take();
        Ok(Self {
            process,
            input: input.map(|pipe| LineInput { pipe, context: context.clone() }),
            output: Some(LineOutput {
                lines: BufReader::new(output).lines(),
                context: context.clone(),
            }),
            errors,
            passing,
            context,
        })
    }

    /// Sets how long the process has for each answer, and for its end. Call it before `take_input`.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.context.patience = patience;
        if let Some(input) = &mut self.input {
            input.context.patience = patience;
        }
        self
    }

    /// Writes a line to the input.
    ///
    /// # Errors
    ///
    /// When the process does not read its input, or has none.
    pub async fn send(&mut self, line: &str) -> Result<(), Error> {
        match &mut self.input {
            Some(input) => input.send(line).await,
            None => Err(self.context.error("has no input that could be written here")),
        }
    }

    /// The next line of the output.
    ///
    /// # Errors
    ///
    /// When the output has ended, is not UTF-8, or has no such line within the patience.
    ///
    /// # Cancel safety
    ///
    /// No line is lost.
    pub async fn line(&mut self) -> Result<String, Error> {
        let Self { output, passing, context, .. } = self;
        let missing = || context.error("has an output that is read elsewhere");
        let output = output.as_mut().ok_or_else(missing)?;
        let line = context.soon("to write a line", output.next_line()).await??;
        if line.is_none() && !passing.is_finished() {
            // Its last lines may show the reason.
            let _with_others = tokio::time::timeout(LAST_ERRORS, passing).await;
        }
        line.ok_or_else(|| context.error("has ended its output"))
    }

    /// Reads lines until one is accepted, and returns what `accept` makes of it. The patience holds for each line.
    ///
    /// # Errors
    ///
    /// As [`line`](Self::line).
    pub async fn line_with<T>(
        &mut self,
        mut accept: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            if let Some(accepted) = accept(&self.line().await?) {
                return Ok(accepted);
            }
        }
    }

    /// The next line of the error output.
    ///
    /// # Errors
    ///
    /// When the error output has ended, or has no such line within the patience.
    ///
    /// # Cancel safety
    ///
    /// No line is lost.
    pub async fn error_line(&mut self) -> Result<String, Error> {
        let Self { errors, context, .. } = self;
        let line = context.soon("to write a line of its error output", errors.recv()).await?;
        let mut line = line.ok_or_else(|| context.error("has ended its error output"))?;
        line.truncate(line.trim_end_matches('\n').len());
        Ok(line)
    }

    /// Hands out the input, so that a task of its own can write there.
    ///
    /// # Panics
    ///
    /// When the process was started without an input, or this was called before.
    pub fn take_input(&mut self) -> LineInput {
        let taken = self.input.take();
        taken.unwrap_or_else(|| self.context.error("has no input to be taken").raise())
    }

    /// Hands out the output, so that a task of its own can read it.
    ///
    /// # Panics
    ///
    /// When this was called before.
    pub fn take_output(&mut self) -> LineOutput {
        let taken = self.output.take();
        taken.unwrap_or_else(|| self.context.error("has no output to be taken").raise())
    }

    /// The identifier of the process, until its end was waited for.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    ///
    /// When the process has ended, and its end was waited for.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = self.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| self.context.error("has ended"))?;
        kill_process(pid, signal).map_err(|error| self.context.error(&error.to_string()))
    }

    /// Kills the process, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When the system refuses, or the process is still there after the patience.
    pub async fn kill(&mut self) -> Result<ExitStatus, Error> {
        let killed = self.process.start_kill();
        killed.map_err(|error| self.context.error(&error.to_string()))?;
        let Self { process, context, .. } = self;
        let status = context.soon("to end", process.wait()).await?;
        status.map_err(|error| context.error(&error.to_string()))
    }

    /// Waits for the end of the process, however long that takes. Its input stays open.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    ///
    /// # Cancel safety
    ///
    /// It can be called again.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        let status = self.process.wait().await;
        status.map_err(|error| self.context.error(&error.to_string()))
    }

    /// Closes the input, waits for the end of the process, and reads both outputs to their ends: these come when every
    /// process that inherited them is gone.
    ///
    /// # Errors
    ///
    /// When that takes longer than the patience, or the output is not UTF-8.
    pub async fn ended(mut self) -> Result<Ended, Error> {
        drop(self.input.take());
        let Self { mut process, output, mut errors, context, .. } = self;
        let ending = async {
            let reading = async {
                let mut rest = String::new();
                if let Some(output) = output {
                    output.lines.into_inner().read_to_string(&mut rest).await?;
                }
                Ok::<_, io::Error>(rest)
            };
            let hearing = async {
                let mut rest = String::new();
                while let Some(line) = errors.recv().await {
                    rest.push_str(&line);
                }
                rest
            };
            tokio::join!(reading, hearing, process.wait())
        };
        let (output, errors, status) = context.soon("to end", ending).await?;
        let failed = |error: io::Error| context.error(&error.to_string());
        Ok(Ended { status: status.map_err(failed)?, output: output.map_err(failed)?, errors })
    }
}

impl LineInput {
    /// Writes a line.
    ///
    /// # Errors
    ///
    /// When the process does not read its input.
    pub async fn send(&mut self, line: &str) -> Result<(), Error> {
        let Self { pipe, context } = self;
        let line = format!("{line}\n");
        let written = context.soon("to read its input", pipe.write_all(line.as_bytes())).await?;
        written.map_err(|error| context.error(&format!("does not read its input: {error}")))
    }
}

impl LineOutput {
    /// The next line, however long it takes; none at the end of the output.
    ///
    /// # Errors
    ///
    /// When it is not UTF-8.
    ///
    /// # Cancel safety
    ///
    /// No line is lost.
    pub async fn next_line(&mut self) -> Result<Option<String>, Error> {
        let line = self.lines.next_line().await;
        line.map_err(|error| self.context.error(&error.to_string()))
    }
}

impl Context {
    async fn soon<T>(&self, what: &str, future: impl Future<Output = T>) -> Result<T, Error> {
        let result = tokio::time::timeout(self.patience, future).await;
        let Self { patience, .. } = self;
        result.map_err(|_| self.error(&format!("has not done this within {patience:?}: {what}")))
    }

    fn error(&self, what: &str) -> Error {
        let last = self.last_errors.lock().unwrap_or_else(PoisonError::into_inner).concat();
        let last = if last.is_empty() { "nothing\n" } else { &last };
        Error::new(format!("{} {what}; the end of its error output:\n{last}", self.program))
    }
}

/// Passes the error output on to ours, keeps its end, and sends each line with its line break.
async fn pass_on(
    output: ChildStderr,
    last: Arc<Mutex<Vec<String>>>,
    sender: UnboundedSender<String>,
) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).await.is_ok_and(|size| size > 0) {
        let text = String::from_utf8_lossy(&line).into_owned();
        eprint!("{text}");
        {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            let excess = (last.len() + 1).saturating_sub(SHOWN);
            last.drain(..excess);
            last.push(text.clone());
        }
        let _nobody_reads_it = sender.send(text);
        line.clear();
    }
}

/// The program that runs in the end, also where `env` starts it (see [`crate::command`]).
fn program_of(command: &Command) -> String {
    let command = command.as_std();
    let behind_env = || command.get_args().find(|it| !it.as_encoded_bytes().starts_with(b"-"));
    let program = match command.get_program() {
        program if program == "env" => behind_env().unwrap_or(program),
        program => program,
    };
    program.display().to_string()
}
