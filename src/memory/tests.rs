//! Where a change stream on a store begins.

use mongo_lease_core::rules::GrantId;
use mongo_lease_core::spec::{Document, Promoted};

use super::MemoryStore;
use crate::token::Token;

#[test]
fn a_stream_without_a_start_begins_behind_all_earlier_events() {
    let store = MemoryStore::new();
    let promoted = Some(Promoted::Recheck { id: GrantId::from("a") });
    let told = Document { promoted, ..Document::empty() };
    store.on_server("locks", |leases| leases.apply("a", |_, _| (Some(told), ())));
    assert_eq!(store.first_event_since(Some(Token::from_u64(0))), 0);
    assert_eq!(store.first_event_since(None), 1);
}
