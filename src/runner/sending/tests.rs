//! The form of a read for a server without majority reads.

use mongodb::bson::{Timestamp, doc};

use super::local_read;

#[test]
fn a_majority_read_alone_has_a_local_form_which_keeps_its_time() {
    let after = Timestamp { time: 1, increment: 2 };
    let read = |level| {
        doc! { "find": "locks", "readConcern": { "level": level, "afterClusterTime": after } }
    };
    assert_eq!(local_read(&read("majority")), Some(read("local")));
    for other in [read("local"), doc! { "find": "locks", "readConcern": {} }, doc! { "ping": 1 }] {
        assert_eq!(local_read(&other), None, "{other}");
    }
}
