use std::time::Duration;

use crate::bson::{Bson, doc};
use crate::rules::ids::GrantId;

use super::statements;
use crate::commands::renew::{GrantKey, RenewalTarget};
use crate::commands::renew_holders::RenewHolders;

fn grant_for(seconds: u64, name: &str, id: &str) -> RenewalTarget {
    let key = GrantKey::new(name, &format!("value of {id}"), &id.into());
    RenewalTarget { key: key.into(), lasts: Duration::from_secs(seconds) }
}

fn grant(name: &str, id: &str) -> RenewalTarget {
    grant_for(31, name, id)
}

/// Names of which the process holds one grant share a statement; a name of which it holds several has its own, which
/// matches only where all of them are there. A time has its own, too.
#[test]
fn a_renewal_of_permits_has_few_statements() {
    let names = |grants: Vec<RenewalTarget>| -> Vec<Bson> {
        let each = statements(&RenewHolders { grants }).into_iter();
        each.map(|it| it.get_document("q").unwrap().get("name").unwrap().clone()).collect()
    };
    let several = |of: &[&str]| Bson::from(doc! { "$in": of });
    let grants = [("$b", "$c.1"), ("$a", "$d.1"), ("$c", "$e.1"), ("$b", "$f.1")];
    let grants = grants.map(|(name, id)| grant(name, id)).to_vec();
    let found = names(grants);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.contains(&several(&["$a", "$c"])) && found.contains(&"$b".into()), "{found:?}");
    let (a, b) = (grant_for(61, "$a", "$a.1"), grant("$b", "$b.1"));
    let (c1, c2) = (grant("$c", "$c.1"), grant_for(61, "$c", "$c.2"));
    let found = names(vec![a, b, c1, c2]);
    assert_eq!(found.len(), 3, "{found:?}");
}

/// The server compares every id of a statement with every holder.
#[test]
fn a_statement_of_a_renewal_has_at_most_64_ids() {
    let texts: Vec<_> = (0..150).map(|number| format!("{number:03}")).collect();
    let built = |texts: &[String]| {
        let grants = texts.iter().map(|text| grant(text, text)).collect();
        statements(&RenewHolders { grants })
    };
    let parts: Vec<_> = texts.chunks(64).map(|part| (part, built(part))).collect();
    assert_eq!(parts.iter().map(|(part, _)| part.len()).collect::<Vec<_>>(), [64, 64, 22]);
    for (part, alone) in &parts {
        // In the name, in the filter of the holders, and in the condition of the pipeline.
        let [statement] = &alone[..] else { panic!("{} statements", alone.len()) };
        let statement = Bson::from(statement.clone()).to_string();
        let count = |text: &String| statement.matches(&format!("\"{text}\"")).count();
        assert!(part.iter().all(|text| count(text) == 3), "{statement}");
    }
    let parts: Vec<_> = parts.into_iter().flat_map(|(_, alone)| alone).collect();
    assert_eq!(built(&texts), parts);
}

/// A process may hold many of them. An `Arc` of 24 bytes, with its two counters and the allocator's word, takes 48.
#[test]
fn a_grants_key_is_small_and_gives_its_texts_back() {
    for (value, grant_id) in [("m-c", "m-c.1"), ("own", "m-c.1"), ("", "m-c.1"), ("ü", "ü")] {
        let key = GrantKey::new("näme", value, &GrantId::from(grant_id));
        assert_eq!((key.name(), key.value(), key.grant_id()), ("näme", value, grant_id));
    }
    assert!(size_of::<GrantKey>() <= 24);
}
