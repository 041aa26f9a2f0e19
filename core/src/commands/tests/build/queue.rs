use super::super::{beat, in_line};
use super::assert_command;
use crate::commands::heartbeat::{Heartbeat, QueueEntry};

fn heartbeat(entries: &[(&str, &str)]) -> Heartbeat {
    let entry = |&(name, value): &(&str, &str)| QueueEntry {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    Heartbeat { entries: entries.iter().map(entry).collect(), ..beat() }
}

#[test]
fn a_beat_is_written_out() {
    let alone = [("$name", "$$NOW"), ("$other", "$$ROOT")];
    assert_command("Heartbeat", &heartbeat(&alone));
    // The reply counts documents: one with several entries of ours must have all of them to be counted.
    assert_command("Heartbeat-two-of-a-name", &heartbeat(&[("$both", "$a"), ("$both", "$b")]));
    let mixed = [("$both", "$a"), ("$name", "$$NOW"), ("$both", "$b"), ("$other", "$$ROOT")];
    assert_command("Heartbeat-mixed", &heartbeat(&mixed));
}

#[test]
fn the_look_at_who_is_in_line_is_written_out() {
    assert_command("FindEntries", &in_line());
}
