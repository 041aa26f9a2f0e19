//! No command carries a client's wall clock, so no decision of the server's can depend on one.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use super::{SENT, acquire, key, target, walk};
use crate::commands::guard::Guard;
use crate::commands::inspect::{Look, Page};
use crate::commands::probe::{DryRun, Hello};
use crate::commands::release::{Release, ReleaseLater, Which};
use crate::commands::renew::{RenewMany, Resume};
use crate::commands::tick::Tick;
use crate::rules::time::Instant;
use crate::runner::{Command, Lane};

/// Every command that there is, as it is built at this moment.
fn every_command(sent: Instant) -> Vec<Document> {
    let collection = "locks".to_owned();
    let hold_at_least = Duration::from_secs(5);
    let tick = Tick {
        collection: collection.clone(),
        name: "n".to_owned(),
        value: "v".to_owned(),
        grant_id: "g".to_owned(),
    };
    let later =
        ReleaseLater { collection: collection.clone(), target: target(Which::Any), hold_at_least };
    let look = Look { collection: collection.clone(), names: vec![], lane: Lane::Ask };
    let page =
        Page { collection: collection.clone(), regex: None, owner: None, after: None, limit: 100 };
    vec![
        acquire().build(sent),
        Release { collection: collection.clone(), targets: vec![target(Which::Any)] }.build(sent),
        later.build(sent),
        RenewMany { collection: collection.clone(), grants: vec![key().into()] }.build(sent),
        Resume { collection: collection.clone(), key: key() }.build(sent),
        Guard { collection: collection.clone(), key: key().into() }.build(sent),
        tick.build(sent),
        look.build(sent),
        page.build(sent),
        Hello.build(sent),
        DryRun { collection }.build(sent),
    ]
}

#[test]
fn no_command_has_a_date_or_a_timestamp_of_ours_in_it() {
    for command in every_command(SENT) {
        walk(&Bson::from(command.clone()), &mut |value| {
            let is_clock = matches!(value, Bson::DateTime(_) | Bson::Timestamp(_));
            assert!(!is_clock, "{value} in {command}");
        });
    }
}

/// Nor in another disguise: built twice, they differ in the echo alone, which is the monotonic
/// clock's and which no expression reads.
#[test]
fn the_moment_of_sending_is_in_no_command_but_as_its_echo() {
    let later = Instant::from_nanos(SENT.as_nanos() + 3_600_000_000_000);
    let mut echoes = 0;
    for (now, then) in every_command(SENT).into_iter().zip(every_command(later)) {
        assert_eq!(without_echo(&now.into(), &mut echoes), without_echo(&then.into(), &mut 0));
    }
    // Twice in acquire; once in renew, resume and guard.
    assert_eq!(echoes, 5);
    for command in every_command(SENT) {
        walk(&Bson::from(command.clone()), &mut |value| {
            let reads_echo = value.as_str().is_some_and(|text| text.contains("$grant.sent"));
            assert!(!reads_echo, "{value} in {command}");
        });
    }
}

/// The same with the echoes taken out and counted.
fn without_echo(value: &Bson, echoes: &mut usize) -> Bson {
    if let Some(document) = value.as_document() {
        let mut kept = doc! {};
        for (key, inner) in document {
            match (key.as_str(), inner) {
                ("sent" | "grant.sent", Bson::Int64(_)) => *echoes += 1,
                (_, inner) => {
                    kept.insert(key, without_echo(inner, echoes));
                }
            }
        }
        return kept.into();
    }
    match value.as_array() {
        Some(array) => {
            array.iter().map(|inner| without_echo(inner, echoes)).collect::<Vec<_>>().into()
        }
        None => value.clone(),
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
