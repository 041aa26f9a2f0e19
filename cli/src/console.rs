//! The console: results go to stdout, messages to stderr.

use std::io::{self, IsTerminal, Write};

use crate::text;

/// The output of the program.
pub(crate) struct Console {
    /// Results go to a terminal.
    data_is_seen: bool,
    /// Messages go to a terminal.
    talk_is_seen: bool,
    has_colours: bool,
}

/// The meaning of a word, shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shade {
    Good,
    Notable,
    Bad,
    Quiet,
}

impl Console {
    /// The process's own console.
    pub(crate) fn of_the_process() -> Console {
        let data_is_seen = io::stdout().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|value| value == "dumb");
        Console {
            data_is_seen,
            talk_is_seen: io::stderr().is_terminal(),
            has_colours: data_is_seen && !unwanted && !dumb,
        }
    }

    /// Whether messages go to a terminal.
    pub(crate) fn talk_is_seen(&self) -> bool {
        self.talk_is_seen
    }

    /// The columns and rows of the terminal that results go to; `None` without a terminal.
    pub(crate) fn size(&self) -> Option<(u16, u16)> {
        if !self.data_is_seen {
            return None;
        }
        Some(size_of_terminal().unwrap_or((80, 24)))
    }

    /// Writes a line of the result. Returns false if the pipe is closed.
    pub(crate) fn put(&mut self, line: &str) -> bool {
        self.put_raw(&format!("{line}\n"))
    }

    /// Writes a piece of the result without a line break. Returns false if the pipe is closed.
    pub(crate) fn put_raw(&mut self, piece: &str) -> bool {
        let mut data = io::stdout().lock();
        data.write_all(piece.as_bytes()).and_then(|()| data.flush()).is_ok()
    }

    /// Writes a message line. Its text may come from anybody who can write to the database.
    pub(crate) fn say(&mut self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", text::printable_lines(line));
    }

    /// Colours a text, if colours are enabled.
    pub(crate) fn paint(&self, shade: Shade, text: &str) -> String {
        if !self.has_colours {
            return text.to_owned();
        }
        let colour = match shade {
            Shade::Good => 32,
            Shade::Notable => 33,
            Shade::Bad => 31,
            Shade::Quiet => 2,
        };
        format!("\x1b[{colour}m{text}\x1b[0m")
    }
}

/// Whether standard output was closed when the program started: whatever is written there is lost without an error.
///
/// Rust opens `/dev/null` for reading and writing in its place. A shell's `> /dev/null` opens it for writing alone: so
/// a caller discards the output on purpose. Some programs open it for both, and count as closed.
#[cfg(unix)]
pub(crate) fn data_is_closed() -> bool {
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, stat};

    let stdout = rustix::stdio::stdout();
    let (Ok(flags), Ok(found)) = (fcntl_getfl(stdout), fstat(stdout)) else { return true };
    let is_null = stat("/dev/null").is_ok_and(|null| null.st_rdev == found.st_rdev)
        && FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    is_null && flags & OFlags::RWMODE == OFlags::RDWR
}

#[cfg(unix)]
fn size_of_terminal() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

#[cfg(not(unix))]
fn size_of_terminal() -> Option<(u16, u16)> {
    None
}
