//! The taken name of which a call tells.

use std::time::Duration;

use mongo_lease_core::commands::snapshot;
use mongodb::bson::doc;

use super::Progress;
use crate::error::Error;

/// The error for a name that somebody holds.
fn busy(name: &str) -> Error {
    Error::Busy(Box::new(snapshot::read(&doc! { "name": name }).info))
}

#[test]
fn the_first_of_the_taken_names_counts_in_whatever_order_they_are_answered() {
    for order in [["a", "b", "c"], ["b", "c", "a"], ["c", "b", "a"]] {
        let mut progress = Progress::default();
        for name in order {
            progress.is_taken(name, busy(name));
        }
        let (name, error) = progress.seen.expect("three are taken");
        assert_eq!(name, "a", "{order:?}");
        assert!(matches!(error, Error::Busy(info) if info.name == "a"), "{order:?}");
    }
}

#[test]
fn a_timeout_shows_the_holder_of_the_missing_name_and_of_no_other() {
    for (taken, is_shown) in [("a", true), ("b", false)] {
        let mut progress = Progress::default();
        progress.is_taken(taken, busy(taken));
        let names = ["a", "b"].map(str::to_owned);
        let error = progress.timeout(&names, Duration::ZERO);
        let Error::WaitTimeout { name, held, source: None, .. } = error else { panic!("{error}") };
        assert_eq!((&*name, held.is_some()), ("a", is_shown));
    }
}
