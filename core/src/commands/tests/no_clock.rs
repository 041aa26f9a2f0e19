//! No command carries a client's wall clock, so no decision of the server's can depend on one.

use std::collections::{BTreeMap, BTreeSet};

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::time::Instant;

use super::every::every_command;
use super::paths::{differences, leaves};
use super::{SENT, walk};

#[test]
fn no_command_has_a_date_or_a_timestamp_of_ours_in_it() {
    let mut times_of_the_servers = Vec::new();
    for (what, mut command) in every_command(SENT) {
        // A time that the server named is sent back, for a read that is no older than it.
        let read_concern = command.get_document_mut("readConcern");
        let time = read_concern.ok().and_then(|concern| concern.remove("afterClusterTime"));
        times_of_the_servers.extend(time.map(|time| (what, time)));
        walk(&Bson::from(command.clone()), &mut |value| {
            // The Unix epoch is a constant and comes from no clock.
            let is_constant = *value == Bson::DateTime(DateTime::from_millis(0));
            let is_date = matches!(value, Bson::DateTime(_) | Bson::Timestamp(_));
            let may_be_constant = what == "tombstone" || what.starts_with("end ");
            let is_clock = is_date && !(is_constant && may_be_constant);
            assert!(!is_clock, "{what}: {value} in {command}");
        });
    }
    let time = Bson::Timestamp(crate::bson::Timestamp { time: 9, increment: 3 });
    let reads = ["find grants", "look after a time", "find written"];
    assert_eq!(times_of_the_servers, reads.map(|what| (what, time.clone())));
}

/// The wall clock is not there in any other form either: two builds differ only in the echo, which is the monotonic
/// clock's.
#[test]
fn the_moment_of_sending_is_in_no_command_but_as_its_echo() {
    let later = Instant::from_micros(SENT.as_micros() + 3_600_000_000);
    let echoes = [SENT, later].map(|sent| Bson::Int64(sent.as_micros().try_into().unwrap()));
    let mut found = BTreeMap::new();
    for ((what, now), (_, then)) in every_command(SENT).into_iter().zip(every_command(later)) {
        for (path, now, then) in differences(&now, &then) {
            assert_eq!([now, then], echoes, "{what}: {path:?}");
            assert!(
                ["sent", "sentMicros", "grant.sentMicros"].contains(&path.field()),
                "{what}: {path:?}"
            );
            assert!(path.is_only_handed_on(), "{what}: {path:?}");
            *found.entry(what).or_insert(0) += 1;
        }
    }
    let once = "take, acquire, insert, join, take over a place, beat, renew, resume, guard, \
                admit fast, renew a permit, renew two permits";
    // One for each of two calls; one for a grant that is found again, and one for an entry.
    let twice = "take together, admit, admit or join";
    let wanted = [(once, 1), (twice, 2)];
    let wanted =
        wanted.into_iter().flat_map(|(all, count)| all.split(", ").map(move |it| (it, count)));
    assert_eq!(found, wanted.collect());
}

/// No decision uses an echo: a command copies it as an echo, or checks its type.
#[test]
fn an_echo_is_read_to_be_handed_on_and_for_nothing_else() {
    let mut read = BTreeSet::new();
    for (what, command) in every_command(SENT) {
        for (path, leaf) in leaves(&command) {
            let is_echo = |text: &str| {
                text.starts_with('$') && (text.ends_with(".sentMicros") || text == "$$sent")
            };
            let Some(text) = leaf.as_str().filter(|text| is_echo(text)) else {
                continue;
            };
            read.insert(text.to_owned());
            let looks_at_type = path.last() == "$type";
            // The text of `admitted` is built in a variable.
            let is_copied = ["sent", "sentMicros", "promoted"].contains(&path.field())
                || path.is_within("told");
            let hands_on = is_copied && path.is_only_handed_on();
            assert!(looks_at_type || hands_on, "{what}: {text} at {path:?}");
        }
    }
    let wanted = ["each", "first", "me", "old", "this"].map(|it| format!("$${it}.sentMicros"));
    assert_eq!(read, BTreeSet::from(wanted));
}

/// The scans of the tests above find a condition on an echo.
#[test]
fn a_condition_on_an_echo_is_found() {
    let is_handed_on = |command: &Document| {
        let mut leaves = leaves(command);
        leaves.retain(|(_, leaf)| leaf.as_str().is_some());
        leaves[0].0.is_only_handed_on()
    };
    for (handed_on, command) in [
        (true, doc! { "sent": "$$sent" }),
        (true, doc! { "sent": { "$cond": { "1": "$$sent" } } }),
        (true, doc! { "promoted": { "$concat": [{ "$toString": "$$head.sentMicros" }] } }),
        (false, doc! { "sent": { "$cond": ["$$sent", 1, 2] } }),
        (false, doc! { "sent": { "$cond": [{ "$gt": ["$$sent", 1] }, 1, 2] } }),
        (false, doc! { "sent": { "$add": ["$$sent", 1] } }),
        (false, doc! { "promoted": { "$cond": [1, { "$add": ["$$sent", 1] }, 2] } }),
    ] {
        assert_eq!(is_handed_on(&command), handed_on, "{command}");
    }
}
