use crate::bson::Timestamp;
use crate::rules::pattern::NamePattern;

use super::super::in_line;
use super::assert_command;
use crate::commands::confirm::FindWritten;
use crate::commands::find::{FindApplied, FindGrants, FindHolders, FindLeases, GetLease, Page};
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, FindOtherFormat, ListIndexes, LookAtCollection,
};
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping};
use crate::commands::renew::GrantKey;
use crate::schema::SPECS;

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
    assert_command("FindApplied", &FindApplied(look(&["$name"])));
    // For users, with the holders of leases held by several.
    assert_command("GetLease", &GetLease { name: "$name".to_owned() });
    let pattern = NamePattern::Prefix("$".to_owned());
    let (owner, after) = (Some("$owner".to_owned()), Some("$a".to_owned()));
    assert_command("Page", &Page { pattern, owner, after, limit: 100 });
    // Renewals read their own holders by their ids, and the echo of the newest command.
    let key = |id: &str| GrantKey::new("$a", "$value", &id.into());
    assert_command("FindHolders", &FindHolders { grants: vec![key("$id1"), key("$id2")] });
    // The same when a majority has all writes up to a time.
    let after = Timestamp { time: 9, increment: 3 };
    let holders = [("$a".to_owned(), ["$v".to_owned()].into())].into();
    assert_command("FindWritten", &FindWritten { holders, after });
    assert_command("FindEntries", &in_line());
}

#[test]
fn what_a_manager_sends_before_it_grants_is_written_out() {
    assert_command("Hello", &Hello);
    assert_command("DryRun", &DryRun);
    assert_command("IsHintUsed", &IsHintUsed);
    assert_command("Ping", &Ping);
    assert_command("LookAtCollection", &LookAtCollection);
    assert_command("CountDuplicates", &CountDuplicates);
    assert_command("FindOtherFormat", &FindOtherFormat);
    assert_command("ListIndexes", &ListIndexes { tells_builds: false });
    assert_command("ListIndexes-with-builds", &ListIndexes { tells_builds: true });
    let [name, expiry] = SPECS.map(|spec| CreateIndex { name: spec.name.to_owned(), spec });
    assert_command("CreateIndex-name", &name);
    assert_command("CreateIndex-expiry", &expiry);
}
