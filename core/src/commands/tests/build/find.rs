use crate::bson::Timestamp;
use crate::rules::ids::GrantId;
use crate::rules::pattern::NamePattern;

use super::assert_command;
use crate::commands::find::{FindGrants, FindHolders, FindLeases, GetLease, Page};
use crate::commands::renew::GrantKey;

#[test]
fn looks_and_pages_are_written_out() {
    let look = |names: &[&str]| FindLeases {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        after: None,
    };
    assert_command("FindLeases-one", &look(&["$name"]));
    assert_command("FindLeases-two", &look(&["$a", "$b"]));
    // A read that sees everything up to a time that the server has named.
    let after = Some(Timestamp { time: 9, increment: 3 });
    assert_command("FindGrants", &FindGrants(FindLeases { after, ..look(&["$a", "$b"]) }));
    // For users, with the holders of leases held by several.
    assert_command("GetLease", &GetLease { name: "$name".to_owned() });
    let page = Page {
        pattern: NamePattern::Prefix("$".to_owned()),
        owner: Some("$owner".to_owned()),
        after: Some("$a".to_owned()),
        limit: 100,
    };
    assert_command("Page", &page);
}

/// Renewals read their own holders by their ids, and the echo of the newest command.
#[test]
fn the_look_at_own_holders_is_written_out() {
    let key = |id: &str| GrantKey::new("$a", "$value", &GrantId::from(id));
    assert_command("FindHolders", &FindHolders { grants: vec![key("$id1"), key("$id2")] });
}
