//! The migration binary against a real server.

mod about;
mod deciding;
mod ending;
mod plans;
mod privileges;
mod reaching;
mod secrets;
mod setting_up;

use std::process::{Child, Command, Output, Stdio};

use mongo_lease_testbed::{Server, TestDatabase, Version, command};
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use serde_json::Value;

/// The variables that the binary reads.
const VARIABLES: [&str; 3] = ["MONGODB_URI", "MONGO_LEASE_DB", "MONGO_LEASE_COLLECTION"];

/// The binary, with an empty environment and no answers to its questions.
fn tool(arguments: &[&str]) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_mongo-lease-migrate"));
    command.args(arguments).stdin(Stdio::null());
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The binary, for a database on the shared server.
fn tool_for(database: &Database, arguments: &[&str]) -> Command {
    let mut command = patient(arguments, Server::shared().uri());
    command.args(["--db", database.name()]);
    command
}

/// The binary, with more time for its connections and commands than a busy machine takes.
fn patient(arguments: &[&str], uri: &str) -> Command {
    let mut command = tool(arguments);
    let mark = if uri.contains('?') { '&' } else { '?' };
    command.env("MONGODB_URI", format!("{uri}{mark}connectTimeoutMS=30000"));
    command.args(["--timeout", "60s"]);
    command
}

/// The result of a run.
#[derive(Debug)]
struct Ran {
    exit: i32,
    data: String,
    talk: String,
}

impl Ran {
    fn of(output: &Output) -> Ran {
        Ran {
            exit: output.status.code().expect("an exit code"),
            data: String::from_utf8_lossy(&output.stdout).into_owned(),
            talk: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn run(mut command: Command) -> Ran {
    Ran::of(&command.output().expect("the binary starts"))
}

fn spawn(mut command: Command) -> Child {
    command.spawn().expect("the binary starts")
}

fn ended(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().expect("the binary ends"))
}

async fn fresh() -> TestDatabase {
    Server::shared().database().await
}

/// The first version whose `collMod` makes an index unique.
const MAKES_UNIQUE: Version = Version::new(6, 0);

/// Whether the server is too old to make an index unique. If so, asserts that the binary says so and changes nothing.
async fn up_is_refused_as_too_old(database: &Database) -> bool {
    let version = Server::shared().version().await;
    if version >= MAKES_UNIQUE {
        return false;
    }
    eprintln!("MongoDB {version} makes no index unique: only its refusal is asserted");
    let before = listed(database).await;
    let ran = run(tool_for(database, &["up", "--yes"]));
    assert_eq!(ran.exit, 1, "{ran:?}");
    let refusal = "is not unique, and a server before MongoDB 6.0 cannot change that; drop it with";
    assert!(ran.data.contains(refusal), "{ran:?}");
    assert_eq!(listed(database).await, before);
    true
}

async fn create_index(database: &Database, name: &str, key: Document, options: Document) {
    let mut index = doc! { "name": name, "key": key };
    index.extend(options);
    let command = doc! { "createIndexes": "locks", "indexes": [index] };
    database.run_command(command).await.expect("the index is made");
}

async fn insert(database: &Database, documents: Vec<Document>) {
    database.collection("locks").insert_many(documents).await.expect("the documents are new");
}

/// The indexes as the server lists them; none where there is no collection.
async fn listed(database: &Database) -> Vec<Document> {
    let Ok(reply) = database.run_command(doc! { "listIndexes": "locks" }).await else {
        return Vec::new();
    };
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch.expect("a batch").iter().filter_map(Bson::as_document).cloned().collect()
}
