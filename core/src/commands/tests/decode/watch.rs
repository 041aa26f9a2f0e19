//! Decoding of change events.

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::rules::time::Instant;
use mongo_lease_core_tests::Chance;
use mongo_lease_testbed::Seed;

use crate::commands::watch::{Promotion, StreamEvent, decode};

const TIME: Timestamp = Timestamp { time: 1_700_000_000, increment: 5 };
pub(super) const EXPIRES_AT: DateTime = DateTime::from_millis(1_700_000_031_000);

/// An update that set `promoted` to this.
pub(super) fn update(promoted: impl Into<Bson>) -> Document {
    let fields = doc! { "promoted": promoted.into(), "expiresAt": EXPIRES_AT };
    doc! {
        "_id": { "_data": "82" },
        "operationType": "update",
        "clusterTime": TIME,
        "ns": { "db": "test", "coll": "locks" },
        "updateDescription": { "updatedFields": fields },
    }
}

/// A write that changed more than it left: the document at that time.
pub(super) fn replacement(promoted: impl Into<Bson>) -> Document {
    let document = doc! {
        "value": "v",
        "expiresAt": EXPIRES_AT,
        "promoted": promoted.into(),
        "grant": { "value": "v", "id": "m-c.2" },
    };
    let mut event = update("");
    event.remove("updateDescription");
    event.insert("operationType", "replace");
    event.insert("fullDocument", document);
    event
}

pub(super) fn promotion(grant_id: &str, sent: u64) -> Option<StreamEvent> {
    Some(StreamEvent::Promoted(Promotion {
        grant_id: grant_id.into(),
        sent: Instant::from_micros(sent),
        token: Timestamp { time: 1_700_000_000, increment: 5 },
        expires_at: chrono::DateTime::from_timestamp_millis(1_700_000_031_000),
    }))
}

fn nudge(call_id: &str) -> Option<StreamEvent> {
    Some(StreamEvent::Recheck { call_id: call_id.into() })
}

/// The part of an event at this path.
pub(super) fn within<'a>(event: &'a mut Document, path: &[&str]) -> &'a mut Document {
    path.iter().fold(event, |document, field| document.get_document_mut(field).unwrap())
}

#[test]
fn an_update_tells_of_a_promotion() {
    assert_eq!(decode(&update("m-c.2@7")), promotion("m-c.2", 7));
    assert_eq!(decode(&update("m-c.10@0")), promotion("m-c.10", 0));
    let longest = format!("m-c.2@{}", i64::MAX);
    assert_eq!(decode(&update(longest)), promotion("m-c.2", 9_223_372_036_854_775_807));
}

#[test]
fn a_replacement_tells_of_a_promotion_whose_grant_still_holds() {
    assert_eq!(decode(&replacement("m-c.2@7")), promotion("m-c.2", 7));
    // A later write: by then the lease has another holder, or none, or the document does not show it.
    let changes: [(&[&str], &str, Bson); 10] = [
        (&["fullDocument"], "value", "another".into()),
        (&["fullDocument"], "value", "".into()),
        (&["fullDocument"], "value", Bson::Null),
        (&["fullDocument"], "value", Bson::Symbol("v".to_owned())),
        (&["fullDocument"], "grant", Bson::Null),
        (&["fullDocument"], "grant", vec![Bson::from(doc! { "value": "v", "id": "m-c.2" })].into()),
        (&["fullDocument", "grant"], "value", "another".into()),
        (&["fullDocument", "grant"], "value", Bson::Null),
        (&["fullDocument", "grant"], "id", "m-c.20".into()),
        (&["fullDocument", "grant"], "id", 7.into()),
    ];
    for (path, field, value) in changes {
        let mut event = replacement("m-c.2@7");
        within(&mut event, path).insert(field, value);
        assert_eq!(decode(&event), None, "{event}");
        within(&mut event, path).remove(field);
        assert_eq!(decode(&event), None, "{event}");
    }
    // Two missing values are not equal.
    let mut event = replacement("m-c.2@7");
    within(&mut event, &["fullDocument"]).remove("value");
    within(&mut event, &["fullDocument", "grant"]).remove("value");
    assert_eq!(decode(&event), None);
}

#[test]
fn a_nudge_has_its_call_ask_whoever_holds_the_lease() {
    for (text, call_id) in
        [("m-c.2@!1700000000000", "m-c"), ("m-d.13@!-5", "m-d"), ("m-d.13@!", "m-d")]
    {
        assert_eq!(decode(&update(text)), nudge(call_id), "{text}");
        assert_eq!(decode(&replacement(text)), nudge(call_id), "{text}");
    }
}

#[test]
fn an_expiry_that_is_no_date_is_not_known_and_the_rest_stands() {
    for (event, path) in [
        (update("m-c.2@7"), ["updateDescription", "updatedFields"].as_slice()),
        (replacement("m-c.2@7"), ["fullDocument"].as_slice()),
    ] {
        for odd in [Bson::Null, 7.into(), TIME.into(), DateTime::MAX.into(), "2999".into()] {
            let mut event = event.clone();
            within(&mut event, path).insert("expiresAt", odd);
            let Some(StreamEvent::Promoted(told)) = decode(&event) else {
                panic!("{event}");
            };
            assert_eq!((told.grant_id.as_str(), told.expires_at), ("m-c.2", None), "{event}");
            within(&mut event, path).remove("expiresAt");
            assert_eq!(decode(&event), Some(StreamEvent::Promoted(told)), "{event}");
        }
    }
}

/// The last full stop precedes the attempt's number, and the last at sign precedes the echo. The call's id may contain
/// both characters.
#[test]
fn ids_may_have_anything_in_them() {
    for (text, grant_id, call_id) in [
        ("m-c.2@7", "m-c.2", "m-c"),
        ("m-a.b.c.2@7", "m-a.b.c.2", "m-a.b.c"),
        ("m-a@b.2@7", "m-a@b.2", "m-a@b"),
        ("m-a@!b.2@7", "m-a@!b.2", "m-a@!b"),
        ("m-c..2@7", "m-c..2", "m-c."),
        ("m-🔒.2@7", "m-🔒.2", "m-🔒"),
        // Our texts never look like these.
        ("m-c@7", "m-c", "m-c"),
        (".@7", ".", ""),
        ("@7", "", ""),
    ] {
        let Some(StreamEvent::Promoted(told)) = decode(&update(text)) else {
            panic!("{text}");
        };
        assert_eq!((told.grant_id.as_str(), told.call_id()), (grant_id, call_id.into()), "{text}");
        let recheck = text.replace("@7", "@!7");
        assert_eq!(decode(&update(recheck)), nudge(call_id), "{text}");
    }
}

#[test]
fn an_event_without_an_echo_or_a_time_says_nothing() {
    for text in [
        "",
        "m-c.2",
        "m-c.2@",
        "m-c.2@-1",
        "m-c.2@7.0",
        "m-c.2@ 7",
        "m-c.2@7 ",
        "m-c.2@7e3",
        "m-c.2@x",
        "m-c.2@NaN",
        "m-c.2@\u{661}",
        // Does not fit into 64 bits.
        "m-c.2@18446744073709551616",
        "m-c.2@99999999999999999999999999",
    ] {
        assert_eq!(decode(&update(text)), None, "{text}");
        assert_eq!(decode(&replacement(text)), None, "{text}");
    }
    let odd = [
        Bson::Null,
        7.into(),
        Bson::Symbol("m-c.2@7".to_owned()),
        vec![Bson::from("m-c.2@7")].into(),
        doc! { "m-c": "2@7" }.into(),
    ];
    for odd in odd {
        assert_eq!(decode(&update(odd.clone())), None, "{odd}");
        assert_eq!(decode(&replacement(odd.clone())), None, "{odd}");
    }
    for event in [update("m-c.2@7"), replacement("m-c.2@7"), update("m-c.2@!7")] {
        let mut timeless = event.clone();
        timeless.remove("clusterTime");
        assert_eq!(decode(&timeless), None, "{timeless}");
        for odd in [Bson::Null, 7.into(), EXPIRES_AT.into(), doc! {}.into()] {
            timeless.insert("clusterTime", odd);
            assert_eq!(decode(&timeless), None, "{timeless}");
        }
    }
}

#[test]
fn other_events_say_nothing() {
    let mut invalidated = update("m-c.2@7");
    invalidated.remove("updateDescription");
    invalidated.insert("operationType", "invalidate");
    let empty = doc! { "clusterTime": TIME, "updateDescription": { "updatedFields": {} } };
    let odd = [
        doc! { "clusterTime": TIME, "updateDescription": 7 },
        doc! { "clusterTime": TIME, "updateDescription": { "updatedFields": "m-c.2@7" } },
        doc! { "clusterTime": TIME, "fullDocument": Bson::Null },
        doc! { "clusterTime": TIME, "fullDocument": "m-c.2@7" },
        doc! { "clusterTime": TIME, "fullDocument": {} },
    ];
    for event in [doc! {}, invalidated, empty].into_iter().chain(odd) {
        assert_eq!(decode(&event), None, "{event}");
    }
}

/// Whatever value is put anywhere, no event becomes a promotion without an echo and a time.
#[test]
fn no_event_makes_it_panic_or_believe() {
    let texts = ["m-c.2@7", "m-c.2@!7", "m-c.2@-7", "m-c.2@", "@", "", "m-c.2", "7", "é@é"];
    let odd = [
        Bson::Null,
        Bson::Undefined,
        Bson::MinKey,
        Bson::Boolean(true),
        Bson::Int32(-1),
        Bson::Int64(i64::MIN),
        Bson::Double(f64::NAN),
        Bson::DateTime(DateTime::MIN),
        Bson::DateTime(DateTime::MAX),
        Bson::Timestamp(Timestamp { time: u32::MAX, increment: u32::MAX }),
        Bson::Document(doc! {}),
        Bson::Array(vec![]),
    ];
    let paths: [&[&str]; 7] = [
        &["clusterTime"],
        &["updateDescription"],
        &["updateDescription", "updatedFields"],
        &["updateDescription", "updatedFields", "promoted"],
        &["fullDocument"],
        &["fullDocument", "promoted"],
        &["fullDocument", "grant", "id"],
    ];
    let seed = Seed::fixed("odd change events", 1);
    let mut chance = Chance::new(seed.number());
    let mut counts = [0; 3];
    for _ in 0..20_000 {
        let text = chance.one_of(&texts);
        let mut event = if chance.below(2) == 0 { update(text) } else { replacement(text) };
        for _ in 0..chance.below(3) {
            put(&mut event, chance.one_of(&paths), &mut chance, &odd, &texts);
        }
        match decode(&event) {
            None => counts[0] += 1,
            Some(StreamEvent::Recheck { call_id }) => {
                counts[1] += 1;
                assert!(event.to_string().contains(&format!("{call_id}.2@!")), "{event}");
            }
            Some(StreamEvent::Admitted { .. }) => panic!("no event shows an admission: {event}"),
            Some(StreamEvent::Promoted(told)) => {
                counts[2] += 1;
                assert_eq!(
                    (told.grant_id.as_str(), told.sent.as_micros()),
                    ("m-c.2", 7),
                    "{event}"
                );
                assert_eq!(event.get_timestamp("clusterTime").unwrap(), told.token);
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 500), "{counts:?}");
}

/// Puts an odd value, or another text, at the path, as far as it exists.
fn put(event: &mut Document, path: &[&str], chance: &mut Chance, odd: &[Bson], texts: &[&str]) {
    let Some((last, way)) = path.split_last() else {
        return;
    };
    let mut document = event;
    for field in way {
        match document.get_document_mut(field) {
            Ok(inner) => document = inner,
            Err(_) => return,
        }
    }
    match chance.below(3) {
        0 => drop(document.remove(last)),
        1 => drop(document.insert(*last, chance.one_of(odd))),
        _ => drop(document.insert(*last, chance.one_of(texts))),
    }
}

/// A postponed release sets both values to one that no holder has, and keeps `promoted` if nobody waits.
#[test]
fn a_replacement_of_a_lease_that_was_let_go_tells_nothing() {
    let mut event = replacement("m-c.2@7");
    within(&mut event, &["fullDocument"]).insert("value", "released:1");
    within(&mut event, &["fullDocument", "grant"]).insert("value", "released:1");
    assert_eq!(decode(&event), None, "{event}");
}
