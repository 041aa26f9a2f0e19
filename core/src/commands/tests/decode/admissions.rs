//! Decoding of change events that admit several.

use crate::bson::{Document, doc};
use crate::rules::time::Instant;

use super::super::TOKEN;
use super::watch::{EXPIRES_AT, fields, promotion, replacement, update};
use crate::commands::watch::{Promotion, StreamEvent, decode};

/// An update that admitted these, and the same as a replacement in which they hold.
pub(in super::super) fn admitted(text: &str) -> [Document; 2] {
    let mut updated = update("");
    *fields(&mut updated) = doc! { "admitted": text, "expiresAt": EXPIRES_AT };
    let mut replaced = replacement("m-old.1@5");
    fields(&mut replaced).extend(doc! {
        "value": "mongo-lease/shared",
        "admitted": text,
        "holders": [{ "id": "m-c.2" }, { "id": "x-d.1" }],
    });
    [updated, replaced]
}

fn told_of(admissions: Vec<Promotion>) -> StreamEvent {
    StreamEvent::Admitted { admissions, recheck: None }
}

#[test]
fn an_admission_tells_of_all_whom_one_write_admitted() {
    let [updated, replaced] = admitted("m-c.2@7@1700000009000 x-d.1@8@1700000008000");
    let told = |grant_id: &str, sent, until| Promotion {
        grant_id: grant_id.into(),
        sent: Instant::from_micros(sent),
        token: TOKEN,
        expires_at: chrono::DateTime::from_timestamp_millis(until),
    };
    let both = vec![told("m-c.2", 7, 1_700_000_009_000), told("x-d.1", 8, 1_700_000_008_000)];
    let only = |admissions: &[Promotion]| Some(told_of(admissions.to_vec()));
    assert_eq!(decode(&updated), only(&both));
    assert_eq!(decode(&replaced), only(&both));
    // A later write: by then one of them holds no more.
    let mut later = replaced.clone();
    fields(&mut later).insert("holders", vec![doc! { "id": "x-d.1" }]);
    assert_eq!(decode(&later), only(&both[1..]));
    // By then an exclusive holder has the lease: `admitted` is an old one, and `promoted` speaks.
    let mut later = replaced;
    fields(&mut later).extend(doc! { "value": "v", "promoted": "m-c.2@9" });
    assert_eq!(decode(&later), promotion("m-c.2", 9));
}

/// A release that admits nobody tells the first waiter of an earlier end. A replacement also shows who was admitted
/// before, and does not tell which of both is new.
#[test]
fn a_recheck_in_shared_use_is_told_beside_admissions() {
    let recheck = "m-w.1@!1700000000000-1700000009000";
    assert_eq!(decode(&update(recheck)), Some(StreamEvent::Recheck { call_id: "m-w".into() }));
    let [_, mut replaced] = admitted("m-c.2@7@1700000009000 x-d.1@8@1700000008000");
    fields(&mut replaced).extend(doc! { "promoted": recheck, "holders": [{ "id": "x-d.1" }] });
    let Some(StreamEvent::Admitted { admissions, recheck }) = decode(&replaced) else {
        panic!("{replaced}");
    };
    assert_eq!((admissions.len(), recheck), (1, Some("m-w".into())));
    // Nobody was admitted before.
    fields(&mut replaced).remove("admitted");
    assert_eq!(decode(&replaced), Some(StreamEvent::Recheck { call_id: "m-w".into() }));
    // The promotion of an earlier exclusive holder.
    fields(&mut replaced).insert("promoted", "m-c.2@7");
    assert_eq!(decode(&replaced), None);
}

#[test]
fn a_part_of_an_admission_that_is_damaged_says_nothing() {
    for text in
        ["", " ", "m-c.2", "m-c.2@7", "m-c.2@@9", "m-c.2@7@", "m-c.2@x@9", "m-c.2@-1@9", "@"]
    {
        for event in admitted(text) {
            assert_eq!(decode(&event), Some(told_of(Vec::new())), "{text:?}");
        }
        for event in admitted(&format!("{text} m-c.2@7@1700000009000 {text}")) {
            let told = decode(&event);
            let Some(StreamEvent::Admitted { admissions, .. }) = told else { panic!("{event}") };
            assert_eq!(admissions.len(), 1, "{text:?}");
        }
    }
}
