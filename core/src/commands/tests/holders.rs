//! The holders of a lease that several hold, as users see them. `fuzz` judges whom a list shows.

use crate::bson::Document;
use crate::rules::ids::ManagerId;

use super::{held, holder, with};
use crate::commands::snapshot::{read, read_with_holders};

/// A lease that two hold with these values.
fn held_by([first, second]: [&str; 2]) -> Document {
    let holders = vec![holder(first, 31, 2, 5), holder(second, 17, 1, 3)];
    with(with(held("v", "v.1"), "value", "mongo-lease/shared"), "holders", holders)
}

/// A manager of the process `0123456789ab`.
fn manager() -> ManagerId {
    ManagerId::new("0123456789abffffffffffff".to_owned())
}

/// Of two containers with one host name and the process id 1, each has an owner of its own only in its label.
#[test]
fn the_process_of_a_holder_recognizes_the_lease_by_its_grant() {
    for (values, recognized) in [
        (["a", "b"], [false, false]),
        (["a", "0123456789ab-c"], [false, true]),
        // Another manager of the process.
        (["a", "0123456789ab000000000000-c"], [false, true]),
        (["a", "0123456789ac000000000000-c"], [false, false]),
    ] {
        let mut info = read_with_holders(&held_by(values)).info;
        info.recognize(&manager());
        // The value in the document is nobody's.
        assert_eq!((info.value, info.held_here), (None, recognized[1]), "{values:?}");
        let held_here: Vec<_> = info.holders.iter().map(|holder| holder.held_here).collect();
        assert_eq!(held_here, recognized, "{values:?}");
    }
}

#[test]
fn neither_the_owner_nor_the_value_says_who_holds() {
    for (value, grant_id, held_here) in [
        ("chosen", "0123456789ab000000000000-c.1", true),
        ("chosen", "other-c.1", false),
        // Another process has resumed it.
        ("0123456789ab000000000000-c", "other-c.0", false),
    ] {
        let mut info = read(&held(value, grant_id)).info;
        assert_eq!(info.owner.as_deref(), Some("test@host:1"));
        info.recognize(&manager());
        assert_eq!(info.held_here, held_here, "{value} {grant_id}");
    }
}

#[test]
fn a_lease_in_shared_use_tells_its_permits_in_words() {
    let mut info = read_with_holders(&held_by(["a", "b"])).info;
    // The strictest of the holders binds.
    let text = "lease \"$name\" has 3 of 3 permits in use; the first expires in 17.0 s";
    assert_eq!(info.to_string(), text);
    // In a refusal there is the time of the first alone.
    info.holders.clear();
    for (millis, time) in [(17_343, "17.4 s"), (0, "0.0 s"), (59_901, "1m"), (90_000, "1m 30s")] {
        info.remaining = Some(std::time::Duration::from_millis(millis));
        assert!(info.to_string().ends_with(&format!("; the first expires in {time}")), "{info}");
    }
    let unknown = read(&held_by(["a", "b"])).info;
    assert_eq!(unknown.to_string(), "lease \"$name\" is held by several for 31s more");
}
