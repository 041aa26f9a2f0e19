//! No command carries a client's wall clock, so no decision of the server's can depend on one.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document, doc};

use super::every::every_command;
use super::{SENT, walk};
use crate::rules::time::Instant;

#[test]
fn no_command_has_a_date_or_a_timestamp_of_ours_in_it() {
    for (what, command) in every_command(SENT) {
        walk(&Bson::from(command.clone()), &mut |value| {
            let is_clock = matches!(value, Bson::DateTime(_) | Bson::Timestamp(_));
            assert!(!is_clock, "{what}: {value} in {command}");
        });
    }
}

/// Nor in another disguise: built twice, they differ in the echo alone, which is the monotonic clock's.
#[test]
fn the_moment_of_sending_is_in_no_command_but_as_its_echo() {
    let later = Instant::from_nanos(SENT.as_nanos() + 3_600_000_000_000);
    let echoes = [SENT, later].map(|sent| Bson::Int64(sent.as_nanos().try_into().unwrap()));
    let mut found = BTreeMap::new();
    for ((what, now), (_, then)) in every_command(SENT).into_iter().zip(every_command(later)) {
        for (path, now, then) in differences(&now, &then) {
            assert_eq!([now, then], echoes, "{what}: {path:?}");
            assert!(["sent", "grant.sent"].contains(&path.field()), "{what}: {path:?}");
            assert!(path.is_only_handed_on(), "{what}: {path:?}");
            *found.entry(what).or_insert(0) += 1;
        }
    }
    let wanted = [
        ("acquire", 1),
        // For a grant, for a new entry, and for one that is there.
        ("join", 3),
        ("take over a place", 3),
        ("beat", 1),
        ("renew", 1),
        ("resume", 1),
        ("guard", 1),
    ];
    assert_eq!(found, BTreeMap::from(wanted));
}

/// And nothing is decided by one: whatever reads an echo hands it on as an echo, or looks at its type.
#[test]
fn an_echo_is_read_to_be_handed_on_and_for_nothing_else() {
    let mut read = BTreeMap::new();
    for (what, command) in every_command(SENT) {
        for (path, leaf) in leaves(&command) {
            let is_echo =
                |text: &str| text.starts_with('$') && (text.ends_with(".sent") || text == "$$sent");
            let Some(text) = leaf.as_str().filter(|text| is_echo(text)) else {
                continue;
            };
            *read.entry(text.to_owned()).or_insert(0) += 1;
            let looks_at_type = path.0.last().is_some_and(|last| last == "$type");
            let hands_on = ["sent", "promoted"].contains(&path.field()) && path.is_only_handed_on();
            assert!(looks_at_type || hands_on, "{what}: {text} at {path:?}");
        }
    }
    let read: Vec<&str> = read.keys().map(String::as_str).collect();
    assert_eq!(read, ["$$entry.sent", "$$head.sent", "$$own.sent", "$$sent"]);
}

/// Where something stands in a command: keys, and places in lists.
#[derive(Clone, Debug)]
struct Path(Vec<String>);

impl Path {
    fn with(&self, step: &str) -> Path {
        Path([self.0.as_slice(), &[step.to_owned()]].concat())
    }

    /// The field, or the variable, that it is a part of.
    fn field(&self) -> &str {
        self.0.iter().map(String::as_str).rfind(|step| is_field(step)).unwrap_or_default()
    }

    /// Whether it comes into its field as it is, or as a text: it is in no condition and in no sum.
    fn is_only_handed_on(&self) -> bool {
        let outside = self.0.iter().rposition(|step| is_field(step)).map_or(0, |field| field + 1);
        let operators: Vec<&str> = self.0[outside..].iter().map(String::as_str).collect();
        let mut steps = operators.iter().enumerate().filter(|(_, step)| step.starts_with('$'));
        steps.all(|(place, step)| match *step {
            "$cond" => operators.get(place + 1).is_some_and(|argument| *argument != "0"),
            "$max" | "$concat" | "$toString" => true,
            _ => false,
        })
    }
}

fn is_field(step: &str) -> bool {
    !step.starts_with('$') && !step.bytes().all(|byte| byte.is_ascii_digit())
}

/// Everything in a command that is neither a document nor a list, and where it stands.
fn leaves(command: &Document) -> Vec<(Path, Bson)> {
    fn collect(path: &Path, value: &Bson, leaves: &mut Vec<(Path, Bson)>) {
        if let Some(document) = value.as_document() {
            document.iter().for_each(|(key, inner)| collect(&path.with(key), inner, leaves));
        } else if let Some(array) = value.as_array() {
            let inner = array.iter().enumerate();
            inner.for_each(|(place, it)| collect(&path.with(&place.to_string()), it, leaves));
        } else {
            leaves.push((path.clone(), value.clone()));
        }
    }
    let mut leaves = Vec::new();
    collect(&Path(Vec::new()), &Bson::from(command.clone()), &mut leaves);
    leaves
}

/// Where two commands of the same shape differ, and in what.
fn differences(now: &Document, then: &Document) -> Vec<(Path, Bson, Bson)> {
    let (now, then) = (leaves(now), leaves(then));
    let shape =
        |leaves: &[(Path, Bson)]| leaves.iter().map(|(path, _)| path.0.clone()).collect::<Vec<_>>();
    assert_eq!(shape(&now), shape(&then));
    let both = now.into_iter().zip(then);
    both.filter(|((_, now), (_, then))| now != then)
        .map(|((path, now), (_, then))| (path, now, then))
        .collect()
}

/// What the tests above look for is found by them.
#[test]
fn a_condition_on_an_echo_is_found() {
    let path = |command: Document| leaves(&command).remove(0).0;
    let handed_on = [
        doc! { "sent": "$$sent" },
        doc! { "sent": { "$cond": { "1": "$$sent" } } },
        doc! { "promoted": { "$concat": [{ "$toString": "$$head.sent" }] } },
    ];
    for command in handed_on {
        assert!(path(command.clone()).is_only_handed_on(), "{command}");
    }
    let read = [
        doc! { "sent": { "$cond": ["$$sent", 1, 2] } },
        doc! { "sent": { "$cond": [{ "$gt": ["$$sent", 1] }, 1, 2] } },
        doc! { "sent": { "$add": ["$$sent", 1] } },
        doc! { "promoted": { "$cond": [1, { "$add": ["$$sent", 1] }, 2] } },
    ];
    for command in read {
        let mut leaves = leaves(&command);
        leaves.retain(|(_, leaf)| leaf.as_str().is_some());
        assert!(!leaves[0].0.is_only_handed_on(), "{command}");
    }
}

/// And nobody reads one: in the whole source no wall clock is asked for the time.
#[test]
fn the_source_reads_no_wall_clock() {
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend((!path.ends_with("tests")).then_some(path));
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for banned in ["SystemTime", "Utc::now", "Local::now", "DateTime::now", "Realtime"] {
                assert!(!text.contains(banned), "{banned} in {}", path.display());
            }
            files += 1;
        }
    }
    assert!(files > 20, "{files}");
}
