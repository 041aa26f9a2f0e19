use mongo_lease_core::rules::ids::{GrantId, ManagerId};

fn is_of(manager: &ManagerId, text: &str) -> bool {
    manager.calls().contains(&text.to_owned())
}

#[test]
fn a_manager_has_made_the_ids_of_its_calls_and_no_others() {
    let (manager, other) = (ManagerId::new("ab".to_owned()), ManagerId::new("cd".to_owned()));
    let call = manager.call("c");
    assert!(manager.has_made(call.as_str()) && manager.has_made(call.grant(1).as_str()));
    assert!(!other.has_made(call.as_str()));
}

#[test]
fn the_range_of_a_call_has_its_grants_and_no_others() {
    let manager = ManagerId::new("ab".to_owned());
    let (call, other) = (manager.call("c"), manager.call("c1"));
    let own = [call.grant(1), call.grant(10), call.resent_grant(1, 2), call.resumed_grant()];
    for grant in own {
        assert!(call.has(&grant) && is_of(&manager, grant.as_str()), "{grant:?}");
    }
    assert!(!call.has(&other.grant(1)));
}

/// One id may begin with another's.
#[test]
fn the_range_of_a_manager_has_its_own_calls_in_it_alone() {
    let manager = ManagerId::new("abc".to_owned());
    for ours in ["abc-1.1@5", "abc-ffff.10@!5", "abc-.", "abc-~~"] {
        assert!(is_of(&manager, ours), "{ours}");
    }
    for another in ["", "abc", "abcd-1.1@5", "ab-1.1@5", "abd-1.1@5", "abc.1@5", "ABC-1.1@5"] {
        assert!(!is_of(&manager, another), "{another}");
    }
}

/// A key that somebody made up has an id that no grant of its value has.
#[test]
fn an_id_of_no_grant_of_its_value_is_told_apart() {
    let manager = ManagerId::new("0123456789abcdef".to_owned());
    let (call, other) = (manager.call("00112233445566778899aabbccddeeff"), manager.call("ff"));
    for id in [call.grant(1), call.resent_grant(3, 1), other.resumed_grant()] {
        assert!(id.may_be_of(call.as_str()), "{id:?}");
    }
    for id in [GrantId::from("made up"), GrantId::from(""), other.grant(1)] {
        assert!(!id.may_be_of(call.as_str()), "{id:?}");
        // A caller chose these: one half of a generated value is not enough.
        let [short, other] = ["0123456789abcdef-ff", "0123456789abcdef-0123456789abcdeg"];
        for value in ["a value of its caller", "a-b", short, other, "ff-0123456789abcdef"] {
            assert!(id.may_be_of(value), "{id:?} {value}");
        }
    }
}

#[test]
fn a_grant_names_its_call_and_tells_a_resume() {
    let call = ManagerId::new("m".to_owned()).call("c");
    assert_eq!(call.grant(7).call(), call);
    assert_eq!(call.resumed_grant().call(), call);
    assert!(call.resumed_grant().is_resumed() && !call.grant(10).is_resumed());
    assert_eq!(call.resent_grant(3, 0), call.grant(3));
    assert_eq!(call.resent_grant(3, 1), GrantId::from("m-c.3.1"));
}
