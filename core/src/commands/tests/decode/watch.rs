//! Decoding of change events.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::ids::ManagerId;
use crate::rules::time::Instant;

use super::super::TOKEN;
use crate::commands::watch::{Promotion, StreamEvent, decode, pipeline};

pub(super) const EXPIRES_AT: DateTime = DateTime::from_millis(1_700_000_031_000);

/// An update that set `promoted` to this.
pub(in super::super) fn update(promoted: impl Into<Bson>) -> Document {
    let fields = doc! { "promoted": promoted.into(), "expiresAt": EXPIRES_AT };
    doc! {
        "operationType": "update",
        "clusterTime": TOKEN,
        "updateDescription": { "updatedFields": fields },
    }
}

/// A write that changed more than it left: the document at that time.
pub(in super::super) fn replacement(promoted: impl Into<Bson>) -> Document {
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
        token: TOKEN,
        expires_at: chrono::DateTime::from_timestamp_millis(1_700_000_031_000),
    }))
}

/// The fields that an event shows, in either form.
pub(in super::super) fn fields(event: &mut Document) -> &mut Document {
    let path: &[&str] = match event.contains_key("fullDocument") {
        true => &["fullDocument"],
        false => &["updateDescription", "updatedFields"],
    };
    path.iter().fold(event, |document, field| document.get_document_mut(field).unwrap())
}

/// Fails unless both forms of the event with this text tell this.
#[track_caller]
fn assert_both(promoted: impl Into<Bson>, wanted: Option<&StreamEvent>) {
    let promoted = promoted.into();
    for event in [update(promoted.clone()), replacement(promoted)] {
        assert_eq!(decode(&event).as_ref(), wanted, "{event}");
    }
}

#[test]
fn a_replacement_tells_of_a_promotion_whose_grant_still_holds() {
    assert_eq!(decode(&replacement("m-c.2@7")), promotion("m-c.2", 7));
    // A later write: by then the lease has another holder, or none. `fuzz` has the documents that do not show it.
    let of_nobody = doc! { "value": Bson::Null, "id": "m-c.2" };
    let released = doc! { "value": "released:1", "id": "m-c.2" };
    for change in [
        doc! { "value": "another" },
        doc! { "grant": { "value": "v", "id": "m-c.20" } },
        // Two missing values are not equal.
        doc! { "value": Bson::Null, "grant": of_nobody },
        // A postponed release sets both values to one that no holder has, and keeps `promoted` if nobody waits.
        doc! { "value": "released:1", "grant": released },
    ] {
        let mut event = replacement("m-c.2@7");
        fields(&mut event).extend(change);
        assert_eq!(decode(&event), None, "{event}");
    }
}

#[test]
fn an_expiry_that_is_no_date_is_not_known_and_the_rest_stands() {
    let Some(StreamEvent::Promoted(told)) = promotion("m-c.2", 7) else { unreachable!() };
    let wanted = Some(StreamEvent::Promoted(Promotion { expires_at: None, ..told }));
    for odd in [Bson::Null, 7.into(), TOKEN.into(), DateTime::MAX.into(), "2999".into()] {
        for mut event in [update("m-c.2@7"), replacement("m-c.2@7")] {
            fields(&mut event).insert("expiresAt", odd.clone());
            assert_eq!(decode(&event), wanted, "{event}");
        }
    }
}

/// The last full stop precedes the attempt's number, and the last at sign precedes the echo. The call's id may contain
/// both characters.
#[test]
fn an_update_tells_of_a_promotion_or_has_its_call_ask() {
    for (text, grant_id, sent, call_id) in [
        ("m-c.2@7", "m-c.2", 7, "m-c"),
        ("m-c.2@9223372036854775807", "m-c.2", 9_223_372_036_854_775_807, "m-c"),
        ("m-a.b.c.2@7", "m-a.b.c.2", 7, "m-a.b.c"),
        ("m-a@!b.2@7", "m-a@!b.2", 7, "m-a@!b"),
        ("m-🔒.2@7", "m-🔒.2", 7, "m-🔒"),
        // Our texts never look like these.
        ("m-c@7", "m-c", 7, "m-c"),
        ("@7", "", 7, ""),
    ] {
        let told = promotion(grant_id, sent);
        assert_eq!(decode(&update(text)), told, "{text}");
        let Some(StreamEvent::Promoted(promotion)) = told else { unreachable!() };
        assert_eq!(promotion.call_id(), call_id.into());
        // Whoever holds the lease, and whatever comes behind the mark.
        let recheck = StreamEvent::Recheck { call_id: call_id.into() };
        for mark in ["@!7", "@!1700000000000", "@!-5", "@!"] {
            assert_both(format!("{grant_id}{mark}"), Some(&recheck));
        }
    }
}

/// `fuzz` shows that no event without a time is believed.
#[test]
fn an_event_without_an_echo_or_a_time_says_nothing() {
    assert_both("", None);
    assert_both("m-c.2", None);
    // The last one does not fit into 64 bits.
    for echo in ",-1,7.0, 7,7 ,7e3,x,NaN,\u{661},18446744073709551616".split(',') {
        assert_both(format!("m-c.2@{echo}"), None);
    }
    let in_list = vec![Bson::from("m-c.2@7")];
    for odd in [Bson::Null, Bson::Symbol("m-c.2@7".to_owned()), in_list.into()] {
        assert_both(odd, None);
    }
    for mut event in [update("m-c.2@7"), replacement("m-c.2@7"), update("m-c.2@!7")] {
        event.remove("clusterTime");
        assert_eq!(decode(&event), None, "{event}");
    }
}

/// All other writes to the collection, and the rest of each document, stay on the server.
#[test]
fn a_stream_asks_for_the_promotions_of_its_manager_alone() {
    let stages = pipeline(&ManagerId::new("0123".to_owned()));
    let [ours, fields] = &stages[..] else { panic!("{stages:?}") };
    assert!(ours.get_document("$match").unwrap().to_string().contains("0123-"), "{ours}");
    assert!(fields.get_document("$project").unwrap().contains_key("clusterTime"), "{fields}");
}
