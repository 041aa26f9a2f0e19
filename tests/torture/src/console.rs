//! The program's output for people.

use std::io::Write;

pub(crate) fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // The output may be closed.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
