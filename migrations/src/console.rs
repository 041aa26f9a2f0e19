//! The console: results go to stdout, messages to stderr, and answers come from stdin.

use std::io::{self, BufRead, IsTerminal, Write};

/// The input and output of the program.
pub(crate) struct Console {
    data: Box<dyn Write + Send>,
    talk: Box<dyn Write + Send>,
    /// The source of answers; `None` if the program does not run on a terminal.
    answers: Option<Box<dyn BufRead + Send>>,
}

impl Console {
    /// The process's own console. Answers are read only if stdin is a terminal.
    pub(crate) fn of_the_process() -> Console {
        let stdin = io::stdin();
        let answers: Option<Box<dyn BufRead + Send>> =
            if stdin.is_terminal() { Some(Box::new(io::BufReader::new(stdin))) } else { None };
        Console { data: Box::new(io::stdout()), talk: Box::new(io::stderr()), answers }
    }

    /// Writes a line of the result. A closed pipe does not stop the program half-way.
    pub(crate) fn put(&mut self, line: &str) {
        let _ = writeln!(self.data, "{line}");
    }

    /// Writes a message line.
    pub(crate) fn say(&mut self, line: &str) {
        let _ = writeln!(self.talk, "{line}");
    }

    /// Asks a question. Returns `None` if nobody can answer.
    pub(crate) fn ask(&mut self, question: &str) -> Option<bool> {
        let answers = self.answers.as_mut()?;
        let _ = write!(self.talk, "{question} [y/N] ");
        let _ = self.talk.flush();
        let mut answer = String::new();
        match answers.read_line(&mut answer) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Console;

    fn answering(answer: &'static str) -> Console {
        let answers: Box<dyn std::io::BufRead + Send> = Box::new(answer.as_bytes());
        Console {
            data: Box::new(std::io::sink()),
            talk: Box::new(std::io::sink()),
            answers: Some(answers),
        }
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        assert_eq!(answering("y\n").ask("?"), Some(true));
        assert_eq!(answering("Yes\n").ask("?"), Some(true));
        assert_eq!(answering("\n").ask("?"), Some(false));
        assert_eq!(answering("no\n").ask("?"), Some(false));
        assert_eq!(answering("").ask("?"), None);
    }
}
