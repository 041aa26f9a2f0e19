//! Every command states what it needs: it inherits nothing that matters from the client, the collection or the
//! cluster.

use std::collections::HashSet;
use std::fs;

use crate::bson::{Bson, Document, doc};

use super::every::every_command;
use super::{SENT, files};

/// A write without its concern would be confirmed, and a read answered, as the client's options say.
#[test]
fn each_command_states_its_concern() {
    let majority = Bson::from(doc! { "w": "majority", "j": true });
    for (what, command) in every_command(SENT) {
        let kind = command.keys().next().unwrap().as_str();
        let concern = |of| command.get(of);
        match (kind, what) {
            // It takes that of its transaction.
            ("update" | "findAndModify", "guard") => assert_eq!(concern("writeConcern"), None),
            ("update" | "delete" | "findAndModify" | "createIndexes", _) => {
                assert_eq!(concern("writeConcern"), Some(&majority), "{what}: {command}");
            }
            ("find" | "aggregate", _) => {
                let level = if what == "find applied" { "local" } else { "majority" };
                let read = command.get_document("readConcern");
                assert_eq!(
                    read.and_then(|it| it.get_str("level")).ok(),
                    Some(level),
                    "{what}: {command}"
                );
            }
            // They read no lease.
            ("explain" | "hello" | "ping" | "listCollections" | "listIndexes", _) => {
                let none = [concern("writeConcern"), concern("readConcern")];
                assert_eq!(none, [None, None], "{what}: {command}");
            }
            (other, _) => panic!("{what} is a {other}, of which this test does not know"),
        }
    }
}

/// The parts of a command that compare texts, or whose index does.
fn comparing(command: &Document) -> Vec<Document> {
    let kind = command.keys().next().unwrap().as_str();
    let parts = |of| {
        let parts = command.get_array(of).unwrap().iter();
        parts.map(|part| part.as_document().unwrap().clone()).collect()
    };
    match kind {
        "update" => parts("updates"),
        "delete" => parts("deletes"),
        "createIndexes" => parts("indexes"),
        "explain" => vec![command.get_document(kind).unwrap().clone()],
        "find" | "aggregate" | "findAndModify" => vec![command.clone()],
        _ => Vec::new(),
    }
}

/// The collection's own collation may treat `A` and `a` as equal.
#[test]
fn each_comparison_is_by_bytes() {
    let simple = Bson::from(doc! { "locale": "simple" });
    // This one asks which fields there are, and compares no text.
    let all = every_command(SENT).into_iter().filter(|(what, _)| *what != "find another format");
    for (what, command) in all {
        for part in comparing(&command) {
            assert_eq!(part.get("collation"), Some(&simple), "{what}: {part}");
        }
    }
}

/// Without the unique index two upserts would both insert: with the hint the server refuses them.
#[test]
fn each_upsert_names_the_unique_index() {
    let by_name = Bson::from(doc! { "name": 1 });
    let mut upserts = 0;
    for (what, command) in every_command(SENT) {
        for part in comparing(&command) {
            if part.get_bool("upsert").is_ok_and(|it| it) {
                assert_eq!(part.get("hint"), Some(&by_name), "{what}: {part}");
                upserts += 1;
            }
        }
    }
    assert!(upserts > 5, "{upserts}");
}

#[test]
fn every_command_is_in_the_list() {
    let sources: String =
        files("", "rs").iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let commands = sources.lines().filter_map(|line| line.strip_prefix("impl Command for "));
    let commands: Vec<&str> = commands.map(|rest| rest.trim_end_matches(" {")).collect();
    assert!(commands.len() > 20, "{commands:?}");
    // The imports stand before the first text.
    let (_, list) = include_str!("every.rs").split_once("MARK").unwrap();
    let words: HashSet<&str> = list.split(|it: char| !it.is_alphanumeric()).collect();
    for command in commands {
        assert!(words.contains(command), "{command}");
    }
}
