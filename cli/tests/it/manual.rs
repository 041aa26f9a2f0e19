//! The manual pages: complete, and well-formed.

use std::collections::BTreeSet;
use std::path::Path;

use mongo_lease_testbed::command;

use super::tool::{run, tool};

/// The long options that a help text names at the beginning of a line.
fn options(help: &str) -> BTreeSet<&str> {
    let words = help.lines().filter_map(|line| {
        line.trim_start().trim_start_matches("-h, ").trim_start_matches("-V, ").split(' ').next()
    });
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

/// The sections of a page, each with its text.
fn sections(page: &str) -> Vec<(&str, String)> {
    let parts = page.split("\n.SH ").skip(1);
    parts
        .map(|part| {
            let (title, text) = part.split_once('\n').unwrap_or((part, ""));
            let lines =
                text.lines().filter(|line| !line.starts_with(".ie") && !line.starts_with(".el"));
            (title.trim_matches('"'), lines.collect::<Vec<_>>().join("\n").replace("\\-", "-"))
        })
        .collect()
}

/// Lets groff judge a page, where it is installed.
async fn judge(page: &Path) {
    let mut groff = tokio::process::Command::from(command("groff"));
    groff.args(["-man", "-Tutf8", "-ww", "-z"]).arg(page);
    match groff.output().await {
        Ok(judged) => {
            let talk = String::from_utf8_lossy(&judged.stderr).into_owned();
            assert!(judged.status.success() && talk.is_empty(), "{}: {talk}", page.display());
        }
        Err(error) => eprintln!("NOT RUN: groff on {}: {error}", page.display()),
    }
}

#[tokio::test]
async fn each_command_has_a_page_that_explains_everything() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/man1");
    let ran = run(tool(&["man", "--out", out.to_str().unwrap()])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, ""), "{ran:?}");
    let help = run(tool(&["--help"])).await.data;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let names = commands.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then_some(name)
    });
    let names: Vec<&str> = std::iter::once("").chain(names).collect();
    assert!(names.len() > 10, "{names:?}");
    let files = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(files, names.len(), "no page is missing, and none is left over");
    for name in names {
        let file = if name.is_empty() { String::new() } else { format!("-{name}") };
        let path = out.join(format!("mongo-lease{file}.1"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(&format!(".TH mongo-lease{file} 1")), "{name}");
        assert!(
            page.contains(concat!("\"mongo-lease ", env!("CARGO_PKG_VERSION"), "\"")),
            "{page}"
        );
        let sections = sections(&page);
        for (title, text) in &sections {
            assert!(!text.trim().is_empty(), "{name}: {title} is empty");
        }
        let of = |title: &str| {
            let found = sections.iter().find(|(it, _)| *it == title);
            &found.unwrap_or_else(|| panic!("{name}: no section {title}")).1
        };
        let mut arguments: Vec<&str> = if name.is_empty() { vec![] } else { vec![name] };
        arguments.push("--help");
        let help = run(tool(&arguments)).await.data;
        let options = options(&help);
        assert!(options.contains("--uri") && options.contains("--help"), "{options:?}");
        for option in options {
            assert!(of("OPTIONS").contains(option), "{name}: {option}");
        }
        for code in ["0", "1", "64", "65", "69", "71", "75", "76", "78", "126", "127", "128+n"] {
            assert!(of("EXIT STATUS").contains(&format!("\\fB{code}\\fR")), "{name}: {code}");
        }
        for variable in ["MONGODB_URI", "MONGO_LEASE_DB", "MONGO_LEASE_COLLECTION"] {
            assert!(of("ENVIRONMENT").contains(variable), "{name}: {variable}");
        }
        let has_ttl = of("ENVIRONMENT").contains("MONGO_LEASE_TTL");
        assert_eq!(has_ttl, ["", "run", "acquire"].contains(&name), "{name}");
        assert!(of("SYNOPSIS").starts_with("\\fBmongo-lease"), "{name}: {}", of("SYNOPSIS"));
        assert!(of("SEE ALSO").contains("mongo-lease-migrate"), "{name}");
        judge(&path).await;
    }
}

#[tokio::test]
async fn pages_that_cannot_be_written_are_71() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let ran = run(tool(&["man", "--out", file.to_str().unwrap()])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (71, ""), "{ran:?}");
}
