//! The inside of a process that somebody else has started as a [`LineProcess`](crate::LineProcess).

use std::fmt::Display;
use std::io::{self, BufRead, Write};

use tokio::sync::mpsc;

/// The lines of our input. The channel ends with the input, and so when the process that started us has gone.
///
/// Call it once: two readers would share the lines.
#[must_use]
pub fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // A thread, and not the runtime's: reading cannot be cancelled, and would delay the runtime's end.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let (Ok(line), false) = (line, sender.is_closed()) else { return };
            let _ended = sender.send(line);
        }
    });
    receiver
}

/// Writes a line to our output at once.
///
/// # Errors
///
/// When nobody reads it any more.
pub fn say(line: impl Display) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
