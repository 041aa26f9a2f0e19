//! The values of documents that outlive their holders.

use std::collections::HashSet;

use mongo_lease_core::rules::tombstone::{TombstoneValues, is_tombstone};

#[test]
fn each_statement_has_a_tombstone_of_its_own() {
    let commands = ["00", "01", "0"].map(|it| TombstoneValues::new(it.to_owned()));
    let values = commands.iter().flat_map(|it| (0..1_000).map(|place| it.of_statement(place)));
    let values: HashSet<String> = values.collect();
    assert_eq!(values.len(), 3_000);
    assert!(values.iter().all(|value| is_tombstone(value)));
    for value in ["", "released", "Released:1", " released:1", "m-released:1", "relea\u{301}sed:"] {
        assert!(!is_tombstone(value), "{value}");
    }
}
