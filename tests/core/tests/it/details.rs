//! The texts of holders and waiters, as the store in memory compares them.

use std::hash::{DefaultHasher, Hash, Hasher};

use mongo_lease_core::bson::{Document, doc};
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::ids::CallId;
use mongo_lease_core::spec::Types;
use mongo_lease_core::texts::{Details, Texts};

fn details(owner: &str, metadata: Document) -> Details {
    Details { owner: owner.to_owned(), metadata }
}

fn hash(details: &Details) -> u64 {
    let mut hasher = DefaultHasher::new();
    details.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn details_are_equal_by_their_owner_and_the_text_of_their_metadata() {
    let (one, nan) = (details("a", doc! { "n": 1 }), details("a", doc! { "n": f64::NAN }));
    for same in [&one, &nan] {
        assert_eq!(*same, same.clone());
        assert_eq!(hash(same), hash(&same.clone()));
    }
    for other in [details("b", doc! { "n": 1 }), details("a", doc! { "n": 2 }), nan] {
        assert_ne!(one, other);
        assert_ne!(hash(&one), hash(&other));
    }
}

#[test]
fn a_document_of_nobody_is_a_tombstone_and_a_grant_is_of_its_call() {
    assert!(LeaseInfo::is_tombstone_value(&Texts::nobody()));
    let call = CallId::from("call");
    let grants = [call.grant(1), CallId::from("other").grant(1)];
    assert_eq!(grants.map(|grant| Texts::is_of_call(&grant, &call)), [true, false]);
}
