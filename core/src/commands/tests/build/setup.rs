//! The commands that a manager sends before it grants.

use super::assert_command;
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, FindOtherFormat, ListIndexes, LookAtCollection,
};
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping};
use crate::schema::SPECS;

#[test]
fn probes_are_written_out() {
    assert_command("Hello", &Hello);
    assert_command("DryRun", &DryRun);
    assert_command("IsHintUsed", &IsHintUsed);
    assert_command("Ping", &Ping);
}

#[test]
fn looks_at_the_collection_are_written_out() {
    assert_command("LookAtCollection", &LookAtCollection);
    assert_command("CountDuplicates", &CountDuplicates);
    assert_command("FindOtherFormat", &FindOtherFormat);
}

#[test]
fn looks_at_indexes_and_their_creation_are_written_out() {
    assert_command("ListIndexes", &ListIndexes { tells_builds: false });
    assert_command("ListIndexes-with-builds", &ListIndexes { tells_builds: true });
    let [name, expiry] = SPECS.map(|spec| CreateIndex { name: spec.name.to_owned(), spec });
    assert_command("CreateIndex-name", &name);
    assert_command("CreateIndex-expiry", &expiry);
}
