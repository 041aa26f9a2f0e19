//! Console: data goes out here, talk goes there, and answers come in.

use std::io::{self, BufRead, IsTerminal, Write};

/// Where the program reads and writes.
pub(crate) struct Console {
    data: Box<dyn Write + Send>,
    talk: Box<dyn Write + Send>,
    /// Who answers questions; nobody when the program does not run on a terminal.
    answers: Option<Box<dyn BufRead + Send>>,
}

impl Console {
    /// The process's own: data on stdout, talk on stderr, answers from stdin if that is a terminal.
    pub(crate) fn of_the_process() -> Console {
        let stdin = io::stdin();
        let answers: Option<Box<dyn BufRead + Send>> =
            if stdin.is_terminal() { Some(Box::new(io::BufReader::new(stdin))) } else { None };
        Console { data: Box::new(io::stdout()), talk: Box::new(io::stderr()), answers }
    }

    /// Writes a line of the result. A reader that has gone is no reason to stop half-way.
    pub(crate) fn put(&mut self, line: &str) {
        let _ = writeln!(self.data, "{line}");
    }

    /// Writes a line for whoever looks on.
    pub(crate) fn say(&mut self, line: &str) {
        let _ = writeln!(self.talk, "{line}");
    }

    /// Asks a question. `None` when there is nobody to answer it.
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
