//! Which holders the readers for users may show. Written from the types in the documents alone.

use crate::bson::{Bson, Document};
use crate::rules::ids::ManagerId;
use crate::rules::pattern::NamePattern;
use crate::rules::permits::LIMIT_MAX;

use super::super::{SENT, holder, with};
use super::checks::{assert_metadata, date, is_held, rows, text};
use super::{Decoder, batch, batch_of, decoder, leases};
use crate::commands::Command;
use crate::commands::find::{GetLease, Page};
use crate::commands::snapshot::{LeaseSnapshot, read, read_with_holders};

pub(super) const DECODERS: [Decoder; 3] = [
    decoder("find::GetLease", batches, |reply| {
        looked(&GetLease { name: "$name".to_owned() }, reply)
    }),
    decoder("find::Page", batches, |reply| {
        looked(&Page { pattern: NamePattern::All, owner: None, after: None, limit: 9 }, reply)
    }),
    decoder("snapshot::read_with_holders", shared_leases, |document| {
        judged(read_with_holders(document), document)
    }),
];

/// Leases in shared use, of which one has a holder that has expired; and leases with stale holders.
fn shared_leases() -> Vec<Document> {
    let lists = [
        vec![holder("a", 31, 2, 5), holder("b", 9, 1, 3)],
        vec![holder("a", 31, 1, 1_000), holder("b", -9, 1, 1_000)],
    ];
    let stale_and_shared = |list: Vec<Document>| {
        let stale = with(leases().remove(0), "holders", list);
        [stale.clone(), with(stale, "value", "mongo-lease/shared")]
    };
    lists.into_iter().flat_map(stale_and_shared).collect()
}

pub(super) fn batches() -> Vec<Document> {
    let two = shared_leases().into_iter().take(2).map(Bson::from).collect();
    shared_leases().into_iter().map(batch).chain([batch_of(two)]).collect()
}

fn looked(command: &impl Command<Reply = Vec<LeaseSnapshot>>, reply: &Document) -> bool {
    let (decoded, rows) = (command.decode(reply, SENT).ok(), rows(reply));
    assert_eq!(decoded.as_ref().map(Vec::len), rows.as_ref().map(Vec::len));
    let pairs = decoded.into_iter().flatten().zip(rows.into_iter().flatten());
    // Each of them is judged.
    let shown: Vec<bool> = pairs.map(|(seen, row)| judged(seen, row)).collect();
    shown.contains(&true)
}

/// Fails if a holder is shown that the document does not show. Returns whether any is.
fn judged(seen: LeaseSnapshot, document: &Document) -> bool {
    let info = seen.info.clone();
    let is_shared = text(document, &["value"]) == Some("mongo-lease/shared");
    assert_eq!(info.shared, is_shared && is_held(document) != Some(false), "{document}");
    let live = sound_holders(document).filter(|_| info.shared).unwrap_or_default();
    assert_eq!(info.holders.len(), live.len(), "{document}");
    for (shown, element) in info.holders.iter().zip(&live) {
        assert_eq!(Some(shown.value.as_str()), text(element, &["value"]));
        assert_eq!(shown.owner.as_deref(), text(element, &["owner"]));
        let number = |field| element.get_i64(field).unwrap().max(0);
        let small = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let counts = [number("permits"), number("limit")].map(small);
        assert_eq!([shown.permits, shown.limit], counts);
        let date = |field| date(element, &[field]);
        assert_eq!([shown.acquired_at, shown.expires_at], ["acquiredAt", "expiresAt"].map(date));
        let millis = |from: &Document, field| from.get_datetime(field).unwrap().timestamp_millis();
        let left = millis(element, "expiresAt").saturating_sub(millis(document, "now"));
        assert_eq!(shown.remaining.as_millis(), u128::try_from(left).unwrap());
        assert_metadata(&shown.metadata, element);
    }
    if info.shared {
        let in_use = info.holders.iter().map(|it| it.permits).reduce(u32::saturating_add);
        let limit = info.holders.iter().map(|it| it.limit).min();
        // Unknown, where they are numbers that no call can ask for.
        let counts = in_use.zip(limit).filter(|(in_use, limit)| {
            [in_use, limit].iter().all(|number| (1..=LIMIT_MAX).contains(*number))
        });
        assert_eq!((info.in_use, info.limit), counts.unzip(), "{document}");
    }
    // It can be displayed, and shows users no value that is nobody's.
    let mut told = info;
    told.recognize(&ManagerId::new("m".to_owned()));
    assert!(!format!("{told} {told:?}").is_empty());
    assert_ne!(told.value.as_deref(), Some("mongo-lease/shared"));
    // The rest is as without the holders.
    let mut rest = seen;
    let plain = read(document);
    rest.info.holders.clear();
    (rest.info.in_use, rest.info.limit) = (plain.info.in_use, plain.info.limit);
    assert_eq!(rest, plain);
    !live.is_empty()
}

/// The holders that have not expired, if every element is a holder.
fn sound_holders(document: &Document) -> Option<Vec<&Document>> {
    let (Some(Bson::DateTime(now)), Some(Bson::DateTime(_)), Some(Bson::Array(elements))) =
        (document.get("now"), document.get("expiresAt"), document.get("holders"))
    else {
        return None;
    };
    let mut live = Vec::new();
    for element in elements {
        let element = element.as_document()?;
        let is_text = |field| matches!(element.get(field), Some(Bson::String(_)));
        let is_long = |field| matches!(element.get(field), Some(Bson::Int64(_)));
        let Some(Bson::DateTime(expires_at)) = element.get("expiresAt") else { return None };
        let is_sound = ["value", "id"].into_iter().all(is_text)
            && ["ttlMs", "maxClockSkewMs", "permits", "limit"].into_iter().all(is_long)
            && element.get_i64("permits").is_ok_and(|permits| permits >= 1);
        if !is_sound {
            return None;
        }
        live.extend((expires_at > now).then_some(element));
    }
    Some(live)
}
