//! The manual page and the completions, which need no database.

use std::io::Write;
use std::process::Stdio;

use mongo_lease_testbed::command;

use super::{run, tool};

#[test]
fn the_manual_page_explains_everything() {
    let ran = run(tool(&["--man"]));
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
    let page = ran.data.replace("\\-", "-");
    assert!(page.contains(".TH mongo-lease-migrate 1"), "{page}");
    let sections: Vec<&str> = page.split("\n.SH ").skip(1).collect();
    for section in &sections {
        let (title, text) = section.split_once('\n').unwrap();
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with(".ie \\n")).collect();
        assert!(text.len() > 1 || title == "\"SEE ALSO\"", "{title} is empty: {page}");
    }
    let has = |title: &str, text: &str| {
        let quoted = format!("\"{title}\"");
        let begins = |section: &&&str| section.starts_with(title) || section.starts_with(&quoted);
        let section = sections.iter().find(begins).unwrap_or_else(|| panic!("{title}: {page}"));
        assert!(section.contains(text), "{title}: {text}");
    };
    for option in ["--uri", "--db", "--collection", "--timeout", "--json", "--yes", "--man"] {
        has("OPTIONS", option);
    }
    for name in ["up", "check", "plan", "print"] {
        has("COMMANDS", &format!("\\fB{name}\\fR"));
    }
    for code in ["0", "1", "2", "3"] {
        has("EXIT STATUS", &format!("\\fB{code}\\fR"));
    }
    for variable in ["MONGODB_URI", "MONGO_LEASE_DB", "MONGO_LEASE_COLLECTION"] {
        has("ENVIRONMENT", variable);
    }
    has("SEE ALSO", "mongo-lease");
    let mut groff = command("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-z"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    match groff.spawn() {
        Ok(mut groff) => {
            groff.stdin.take().unwrap().write_all(ran.data.as_bytes()).unwrap();
            let judged = groff.wait_with_output().unwrap();
            let talk = String::from_utf8_lossy(&judged.stderr).into_owned();
            assert!(judged.status.success() && talk.is_empty(), "{talk}");
        }
        Err(error) => eprintln!("NOT RUN: groff: {error}"),
    }
}

#[test]
fn every_shell_gets_the_completions_of_the_migrations() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(tool(&["--completions", shell]));
        assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{shell}");
        for word in ["mongo-lease-migrate", "collection", "check"] {
            assert!(ran.data.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(run(tool(&["--completions", "no-shell"])).exit, 2);
}

#[test]
fn a_bad_name_of_the_environment_says_where_it_is_from() {
    for (variable, value) in [("MONGO_LEASE_DB", "a.b"), ("MONGO_LEASE_COLLECTION", "a$b")] {
        let mut command = tool(&["print", "--uri", "mongodb://localhost:1/app"]);
        command.env(variable, value);
        let ran = run(command);
        assert_eq!((ran.exit, ran.data.as_str()), (2, ""), "{ran:?}");
        assert!(ran.talk.contains(&format!("it comes from {variable}")), "{ran:?}");
    }
    let mut command = tool(&["print"]);
    command.env("MONGO_LEASE_DB", "billing").env("MONGO_LEASE_COLLECTION", "jobs");
    let ran = run(command);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.data.starts_with("// The indexes for leases in billing.jobs\n"), "{ran:?}");
}
