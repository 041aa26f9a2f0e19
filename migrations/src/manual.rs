//! Manual pages, completions, and the tables at the end of a help text.

use std::io;

use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// A term of a table, and its meaning.
pub type Row = (&'static str, &'static str);

/// The columns of a table in a help text.
const WIDTH: usize = 76;
/// How the variables that stand for options begin.
const OF_OPTIONS: &str = "MONGO_LEASE_";

/// The parts of a program's pages that are not options.
#[derive(Clone, Copy, Debug)]
pub struct Supplement {
    /// The exit codes.
    pub exit_codes: &'static [Row],
    /// The environment variables. One that stands for an option is on the pages of the commands with that option.
    pub environment: &'static [Row],
    /// The other programs' pages.
    pub see_also: &'static [&'static str],
}

/// A table for the end of a help text.
#[must_use]
pub fn table(title: &str, rows: &[Row]) -> String {
    let width = rows.iter().map(|(term, _)| term.len()).max().unwrap_or(0).max(3);
    let mut text = format!("{title}:");
    for (term, meaning) in rows {
        let mut line = format!("{term:>width$} ");
        for word in meaning.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                text.extend(["\n", line.trim_end()]);
                line = " ".repeat(width + 1);
            }
            line.extend([" ", word]);
        }
        text.extend(["\n", line.trim_end()]);
    }
    text
}

/// The completion script of a program for a shell.
#[must_use]
pub fn completions(mut command: Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The manual pages of a program and of each of its commands, each with its file's name.
///
/// # Errors
///
/// None is expected: the pages are written to memory.
pub fn pages(command: Command, supplement: &Supplement) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = command.disable_help_subcommand(true);
    program.build();
    let mut pages = vec![whole(&program, Commands::OnTheirPages, supplement)?];
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        pages.push(whole(command, Commands::OnTheirPages, supplement)?);
    }
    Ok(pages)
}

/// The one manual page of a program, with its commands.
///
/// # Errors
///
/// None is expected: the page is written to memory.
pub fn page(command: Command, supplement: &Supplement) -> io::Result<Vec<u8>> {
    let mut program = command.disable_help_subcommand(true);
    program.build();
    Ok(whole(&program, Commands::Here, supplement)?.1)
}

/// Where a program's commands are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commands {
    Here,
    OnTheirPages,
}

fn whole(
    command: &Command,
    commands: Commands,
    supplement: &Supplement,
) -> io::Result<(String, Vec<u8>)> {
    let version = command.get_version().unwrap_or(env!("CARGO_PKG_VERSION"));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.clone().override_usage(usage));
    let man = man.manual("mongo-lease").source(format!("mongo-lease {version}"));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let visible = || command.get_subcommands().filter(|command| !command.is_hide_set());
    match commands {
        Commands::OnTheirPages if command.has_subcommands() => {
            man.render_subcommands_section(&mut page)?;
        }
        Commands::OnTheirPages => {}
        Commands::Here => {
            let about = |command: &Command| {
                let about = command.get_about().map(ToString::to_string);
                (command.get_name().to_owned(), about.unwrap_or_default())
            };
            section("COMMANDS", visible().map(about)).to_writer(&mut page)?;
        }
    }
    let owned = |(term, meaning): &Row| ((*term).to_owned(), (*meaning).to_owned());
    section("EXIT STATUS", supplement.exit_codes.iter().map(owned)).to_writer(&mut page)?;
    let variables = supplement.environment.iter().filter(|(name, _)| concerns(command, name));
    let variables = variables.map(owned);
    section("ENVIRONMENT", variables).to_writer(&mut page)?;
    let mut others: Vec<String> = supplement.see_also.iter().map(|it| (*it).to_owned()).collect();
    let program = command.get_bin_name().and_then(|name| name.split(' ').next());
    others.extend(program.filter(|name| *name != command.get_name()).map(str::to_owned));
    see_also(&others).to_writer(&mut page)?;
    Ok((man.get_filename(), page))
}

/// Whether a variable means something to a command. The program's own page has all of them.
fn concerns(command: &Command, variable: &str) -> bool {
    let is_of_an_option = variable.starts_with(OF_OPTIONS);
    let is_its = |arg: &Arg| arg.get_env().is_some_and(|name| name == variable);
    command.has_subcommands() || !is_of_an_option || command.get_arguments().any(is_its)
}

fn section(title: &str, rows: impl Iterator<Item = (String, String)>) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in rows {
        roff.control("TP", []).text([bold(term)]).text([roman(meaning)]);
    }
    roff
}

fn see_also(names: &[String]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for (number, name) in names.iter().enumerate() {
        if number > 0 {
            line.push(roman(", "));
        }
        line.extend([bold(name.clone()), roman("(1)")]);
    }
    roff.text(line);
    roff
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_table_is_wrapped_and_aligned() {
        let long =
            "word word word word word word word word word word word word word word word word";
        let text = table("Codes", &[("0", "done"), ("128+n", long)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["Codes:", "    0  done"]);
        assert!(lines[2].starts_with("128+n  word"), "{text}");
        assert!(lines[3].starts_with("       word"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 76), "{text}");
    }
}
