//! What the person at the screen reads.

use std::io::Write;

pub(crate) fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // Nobody may be reading.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
