//! Readers of replies, on documents of any form: none panics or accepts missing data.

use std::cell::Cell;

use mongodb::bson::{Bson, DateTime, Document, doc};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest::{collection, sample};

use super::super::{commands, holder};
use super::{Found, difference};

/// Field names that some reader uses.
const FIELDS: [&str; 24] = [
    "_id",
    "capped",
    "count",
    "cursor",
    "done",
    "expireAfterSeconds",
    "expiresAt",
    "expiresType",
    "firstBatch",
    "grant",
    "key",
    "maxWireVersion",
    "name",
    "names",
    "options",
    "owner",
    "progress",
    "remainingMs",
    "spec",
    "total",
    "type",
    "unique",
    "value",
    "waiting",
];

fn any_value() -> impl Strategy<Value = Bson> {
    let number = prop_oneof![sample::select(vec![i64::MIN, -1, 0, 1, 3, i64::MAX]), any::<i64>(),];
    let text = sample::select(vec!["", "locks", "date", "missing", "name", "released:1"]);
    let leaf = prop_oneof![
        Just(Bson::Null),
        any::<bool>().prop_map(Bson::Boolean),
        any::<i32>().prop_map(Bson::Int32),
        number.clone().prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        number.prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        text.prop_map(|text| Bson::String(text.to_owned())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let field = sample::select(&FIELDS[..]).prop_map(str::to_owned);
        let fields = collection::vec((field, inner.clone()), 0..4);
        prop_oneof![
            collection::vec(inner, 0..4).prop_map(Bson::Array),
            fields.prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

/// Replies of a server in which one value is replaced, and rows of any form.
fn any_reply() -> impl Strategy<Value = Document> {
    let facets = doc! { "total": [{ "count": 2 }], "names": [{ "_id": "a", "count": 3 }] };
    let rows = vec![
        facets,
        doc! { "name": "locks", "type": "collection", "options": { "capped": true } },
        doc! { "progress": { "done": 3_i64, "total": 9 } },
        doc! { "name": "value_1", "key": { "value": 1 }, "unique": true },
        doc! {
            "value": "v", "grant": { "value": "v", "owner": "test@host:1" },
            "expiresType": "date", "expiresAt": DateTime::MAX, "remainingMs": 9_i64, "waiting": 2,
        },
    ];
    let whole = sample::select(rows.clone());
    let damaged = (sample::select(rows), any::<sample::Index>(), any_value()).prop_map(
        |(mut row, place, value)| {
            let field = place.get(&row.keys().cloned().collect::<Vec<_>>()).clone();
            row.insert(field, value);
            row
        },
    );
    let any_row = any_value().prop_map(|value| doc! { "row": value });
    let row = prop_oneof![2 => whole, 4 => damaged, 1 => any_row];
    let batch = |row: Document| doc! { "cursor": { "firstBatch": [row], "id": 0_i64 }, "ok": 1.0 };
    let any_reply = any_value().prop_map(|value| doc! { "cursor": value, "ok": 1.0 });
    prop_oneof![6 => row.prop_map(batch), 1 => any_reply]
}

#[test]
fn no_reader_panics_or_believes_what_is_not_there() {
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let believed: [Cell<u32>; 5] = Default::default();
    let count = |place: usize, is: bool| believed[place].set(believed[place].get() + u32::from(is));
    let outcome = runner.run(&any_reply(), |reply| {
        let rows = commands::first_batch(&reply);
        let row = rows.as_ref().and_then(|rows| rows.first().copied()).cloned().unwrap_or_default();
        let duplicates = commands::read_duplicates(&reply);
        assert_eq!(duplicates.is_some(), rows.is_some());
        count(0, duplicates.is_some_and(|it| it.total == 2 && it.names.len() == 1));
        let found = commands::read_collection(&reply);
        assert_eq!(found.is_some(), rows.is_some());
        count(1, found.flatten().is_some_and(|it| it.is_capped));
        count(2, commands::read_build(&reply) == Some((3, 9)));
        let holders = holder::read(&reply);
        assert_eq!(holders.is_some(), rows.is_some());
        for holder in holders.into_iter().flatten() {
            assert!(!holder.to_string().is_empty());
            assert_eq!(holder.value.as_deref(), row.get_str("value").ok());
            // A grant describes the holder that has its value.
            let grant = row.get_document("grant").cloned().unwrap_or_default();
            assert!(holder.owner.is_none() || grant.get("value") == row.get("value"));
            // A free lease says so explicitly; every other one is held.
            let has_passed = row.get_i64("remainingMs").is_ok_and(|left| left <= 0);
            let says_free = match row.get_str("expiresType") {
                Ok("missing" | "null") => true,
                Ok("date") => has_passed,
                Ok(_) | Err(_) => false,
            };
            assert_eq!(holder.is_held(), !says_free);
            count(3, holder.owner.is_some());
        }
        let indexes: Vec<Document> = rows.into_iter().flatten().cloned().collect();
        let found = Found { collection: None, indexes: &indexes, wire_version: 17 };
        count(4, !difference("locks", &found).notes.is_empty());
        let _version: i32 = commands::read_wire_version(&reply);
        Ok(())
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    // Each reader must have accepted some replies, or the test has shown nothing.
    assert!(believed.iter().all(|count| count.get() > 20), "{believed:?}");
}
