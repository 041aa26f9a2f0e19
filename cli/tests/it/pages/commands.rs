//! Runs each shell command of the pages as it is written. Only the address of the server is replaced, and for `cargo
//! run` the binary that it would build and run.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mongo_lease::Lease;
use mongo_lease_testbed::{Server, command};
use mongodb::{Client, Database};
use rustix::process::Signal;
use tokio::process::Command;

use super::super::tool::{Ran, Running, leases, lent_server, migrate, run, soon};
use super::{files, lines, read, root};

/// The programs that are run. A new program must be added here, or below.
const RUN: [&str; 3] = ["mongo-lease", "mongo-lease-migrate", "cargo"];

/// Commands that are not run here, and why.
const NOT_RUN: [(&str, &str); 3] = [
    ("cargo run --example quickstart", "tests/it/examples.rs runs it, and compares what it prints"),
    ("cargo test", "it is what runs this"),
    ("cargo run --example dev", "tests/it/dev_example.rs runs it, and uses the server"),
];

/// A replacement for `cargo` in the pages' commands.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2 $3 $4" in
  "run -p mongo-lease-cli --") shift 4; exec mongo-lease "$@" ;;
  "run -p mongo-lease-migrations --") shift 4; exec mongo-lease-migrate "$@" ;;
esac
echo "no binary stands for this: cargo $*" >&2
exit 99
"#;

/// The pages whose commands are run, in a newcomer's reading order.
fn pages() -> Vec<PathBuf> {
    let first =
        ["README.md", "migrations/README.md", "cli/README.md"].map(|page| root().join(page));
    first.into_iter().chain(files(&root().join("docs"), ".md")).collect()
}

/// The commands of a page, each on a line of its own.
fn commands(page: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    for (language, line) in lines(page) {
        if language == Some("sh") {
            let last = commands.last_mut().expect("one");
            if let Some(begin) = line.strip_suffix('\\') {
                last.push_str(begin);
            } else {
                last.push_str(line);
                commands.push(String::new());
            }
        }
    }
    commands.retain(|line| !line.trim().is_empty() && !line.starts_with('#'));
    commands
}

/// The command without its comment.
fn without_remark(line: &str) -> &str {
    line.split_once(" # ").map_or(line, |(command, _)| command).trim_end()
}

/// The line with each address replaced by this server's. The database's name stays.
fn at(server: &Server, line: &str) -> String {
    const SCHEME: &str = "mongodb://";
    let Some((before, address)) = line.split_once(SCHEME) else { return line.to_owned() };
    let end = address.find(['\'', '"', ' ']).unwrap_or(address.len());
    let (address, after) = address.split_at(end);
    let database = address.split_once('/').map_or("", |(_, database)| database);
    let uri = server.uri().replacen("/?", &format!("/{database}?"), 1);
    // In quotes if it was not: it has characters with a meaning for a shell.
    let quote = if before.ends_with(['\'', '"']) { "" } else { "'" };
    format!("{before}{quote}{uri}{quote}{}", at(server, after))
}

/// The environment in which the commands are run.
struct Desk {
    folder: PathBuf,
    path: String,
    uri: Option<String>,
}

impl Desk {
    fn new(name: &str) -> Desk {
        let folder = std::env::temp_dir().join(name);
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let ours = Path::new(env!("CARGO_BIN_EXE_mongo-lease"));
        let migrate = ours.with_file_name("mongo-lease-migrate");
        let advice = "`cargo test` builds it, and so does `cargo build -p mongo-lease-migrations`";
        assert!(migrate.is_file(), "{} is not there: {advice}", migrate.display());
        symlink(ours, bin.join("mongo-lease")).unwrap();
        symlink(migrate, bin.join("mongo-lease-migrate")).unwrap();
        write_script(&bin.join("cargo"), CARGO);
        write_script(&folder.join("report.sh"), "#!/bin/sh\necho done\n");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Desk { folder, path, uri: None }
    }

    async fn type_in(&mut self, line: &str) -> Ran {
        let program = line.split_whitespace().next().unwrap_or_default();
        // It holds for the rest of the page, as in a shell.
        if let Some(uri) = line.strip_prefix("export MONGODB_URI=") {
            self.uri = Some(without_remark(uri).trim_matches('\'').to_owned());
            return Ran { exit: 0, data: String::new(), talk: String::new() };
        }
        assert!(RUN.contains(&program), "neither run nor left out for a reason: {line}");
        // It replaces the shell, so that a signal reaches it.
        let mut command = Command::from(command("bash"));
        command.args(["-c", &format!("exec {line}")]).current_dir(&self.folder);
        command.env("PATH", &self.path).env_remove("MONGODB_URI").stdin(Stdio::null());
        command.envs(self.uri.as_ref().map(|uri| ("MONGODB_URI", uri)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !line.starts_with("mongo-lease watch") {
            return run(command).await;
        }
        let mut running = Running::start(command);
        while !running.line().await.contains("invoice:42") {}
        running.signal(Signal::INT);
        running.ended().await
    }
}

fn write_script(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The lease that the pages mention.
async fn hold(database: &Database) -> Lease {
    leases(database).await.acquire("invoice:42").await.expect("a lease")
}

#[tokio::test]
async fn each_command_works_as_it_is_written() {
    // A server of its own, because the pages name the database.
    let server = lent_server();
    let database = Client::with_uri_str(server.uri()).await.unwrap().database("billing");
    // As `cargo run --example dev` does, with which the README begins.
    migrate(&database).await;
    // A name that nobody else has.
    let mut desk = Desk::new(server.database().await.name());
    let (mut ran_in_all, mut left_out) = (0, Vec::new());
    let mut examined = HashSet::new();
    for (number, page) in pages().iter().enumerate() {
        let _lease = if number > 0 { Some(hold(&database).await) } else { None };
        desk.uri = None;
        for line in commands(&read(page)) {
            let command = without_remark(&line);
            if NOT_RUN.iter().any(|(left_out, _)| *left_out == command) {
                left_out.push(command.to_owned());
                continue;
            }
            // Each looks at the same database, and takes more than a second.
            if command.starts_with("mongo-lease doctor") && !examined.insert(command.to_owned()) {
                continue;
            }
            let exit = line.split_once("# exit code ").map_or("0", |(_, code)| code.trim());
            let ran = soon(&line, desk.type_in(&at(&server, &line))).await;
            assert_eq!(ran.exit.to_string(), exit, "{}: {line}: {ran:?}", page.display());
            if command.ends_with("./report.sh") {
                assert_eq!(ran.data, "done\n", "{line}");
            }
            ran_in_all += 1;
        }
    }
    assert!(ran_in_all > 30, "{ran_in_all}: the commands are not found any more");
    // No exception is left over for a command that is on no page.
    assert_eq!(left_out, NOT_RUN.map(|(command, _)| command));
    fs::remove_dir_all(&desk.folder).unwrap();
}

#[test]
fn an_address_is_replaced_and_the_database_stays() {
    let server = Server::shared();
    let uri = server.uri();
    let with = |database: &str| uri.replacen("/?", &format!("/{database}?"), 1);
    assert_eq!(
        at(server, "x --uri mongodb://h:1 --db b"),
        format!("x --uri '{}' --db b", with(""))
    );
    let export = "export MONGODB_URI='mongodb://…/billing'   # or";
    let expected = format!("export MONGODB_URI='{}'   # or", with("billing"));
    assert_eq!(at(server, export), expected);
}
