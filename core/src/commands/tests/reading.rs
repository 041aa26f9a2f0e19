//! Reads a real document in the specification's terms.

use std::sync::Arc;

use crate::bson::{Bson, Document};
use crate::rules::permits::Permits;
use crate::rules::tombstone::is_tombstone;
use crate::spec::{DamagedHolder, Element, Entry, Expiry, Grant};
use crate::spec::{Holder, HolderElement, Listed, Types};
use crate::texts::{Admission, Details, LeaseDocument, Promoted, Texts};

/// A value. Each tombstone has one of its own, and they are equal here.
fn value(text: &str) -> String {
    if is_tombstone(text) { Texts::nobody() } else { text.to_owned() }
}

/// The owner and the metadata of a grant, an entry or a holder.
pub(super) fn details(found: &Document) -> Arc<Details> {
    let owner = found.get_str("owner").unwrap_or_default().to_owned();
    let metadata = found.get_document("metadata").cloned().unwrap_or_default();
    Arc::new(Details { owner, metadata })
}

/// The document. A field that is missing or of a foreign type becomes one that no command writes.
pub(super) fn document(found: &Document) -> LeaseDocument {
    let mut document = LeaseDocument::empty();
    for (field, value) in found {
        set(&mut document, field, Some(value));
    }
    document
}

/// Sets one field of a document, or removes it. A field of `grant` changes nothing where there is no grant.
pub(super) fn set(document: &mut LeaseDocument, field: &str, found: Option<&Bson>) {
    let text = found.and_then(Bson::as_str);
    match field {
        "value" => document.value = text.map(value),
        "expiresAt" => {
            document.expiry = match found {
                None | Some(Bson::Null) => Expiry::Absent,
                Some(Bson::DateTime(at)) => Expiry::At(at.timestamp_millis()),
                Some(_) => Expiry::Damaged,
            }
        }
        "grant" => document.grant = found.and_then(Bson::as_document).map(grant),
        "queue" => document.queue = list(found, element),
        "promoted" => document.promoted = text.map(promoted),
        "holders" => document.holders = list(found, holder),
        "admitted" => document.admitted = text.map(admitted).unwrap_or_default(),
        "grant.acquiredAt" => {
            let at = found.and_then(date).unwrap_or(0);
            document.grant.iter_mut().for_each(|grant| grant.acquired_at = at);
        }
        "grant.ttlMs" => {
            let ttl = found.and_then(integer).unwrap_or(i64::MIN);
            document.grant.iter_mut().for_each(|grant| grant.ttl = ttl);
        }
        _ => {}
    }
}

fn date(value: &Bson) -> Option<i64> {
    value.as_datetime().map(|at| at.timestamp_millis())
}

/// A number of either type. A command that counts goes on from both.
pub(super) fn integer(value: &Bson) -> Option<i64> {
    value.as_i64().or(value.as_i32().map(i64::from))
}

fn grant(found: &Document) -> Grant<Texts> {
    let number = |field: &str| found.get(field).and_then(integer).unwrap_or(i64::MIN);
    Grant {
        value: found.get_str("value").map_or_else(|_| String::new(), value),
        id: found.get_str("id").unwrap_or_default().into(),
        sent: number("sentMicros"),
        acquired_at: found.get("acquiredAt").and_then(date).unwrap_or(0),
        ttl: number("ttlMs"),
        max_clock_skew: number("maxClockSkewMs"),
        writes: number("writes"),
        details: details(found),
    }
}

fn list<E>(found: Option<&Bson>, element: impl Fn(&Bson) -> E) -> Listed<E> {
    match found {
        None => Listed::Absent,
        Some(Bson::Array(elements)) => Listed::List(elements.iter().map(element).collect()),
        Some(_) => Listed::Damaged,
    }
}

fn element(found: &Bson) -> Element<Texts> {
    let Some(document) = found.as_document() else {
        return Element::Damaged(None);
    };
    let shown = document.get("value").map(|it| it.as_str().map(value).unwrap_or_default());
    let is_sound = |entry: &Entry<Texts>| {
        let number = |number| u32::try_from(number).ok();
        let permits = number(entry.permits).zip(number(entry.limit));
        let is_valid = permits.is_some_and(|(count, limit)| Permits::new(count, limit).is_ok());
        entry.ttl < i64::MAX && entry.max_clock_skew < i64::MAX && is_valid
    };
    match entry(document).filter(is_sound) {
        Some(entry) => Element::Entry(entry),
        None => Element::Damaged(shown),
    }
}

fn entry(document: &Document) -> Option<Entry<Texts>> {
    let date = |field| document.get(field).and_then(date);
    let number = |field| document.get_i64(field).ok();
    Some(Entry {
        value: value(document.get_str("value").ok()?),
        id: document.get_str("id").ok()?.into(),
        sent: number("sentMicros")?,
        heartbeat_at: date("heartbeatAt")?,
        expires_at: date("expiresAt")?,
        ttl: number("ttlMs")?,
        max_clock_skew: number("maxClockSkewMs")?,
        permits: number("permits")?,
        limit: number("limit")?,
        details: details(document),
    })
}

/// `promoted`. A recheck's times are the server's clock, and matter only by being there.
fn promoted(text: &str) -> Promoted {
    let (id, sent) = text.rsplit_once('@').unwrap();
    let id = id.into();
    match sent.strip_prefix('!') {
        Some(millis) => {
            let times: Vec<i64> = millis.split('-').map(|time| time.parse().unwrap()).collect();
            assert!(times.len() <= 2, "{text}");
            Promoted::Recheck { id }
        }
        None => Promoted::Entry { id, sent: sent.parse().unwrap() },
    }
}

fn admitted(text: &str) -> Vec<Admission> {
    let admission = |part: &str| {
        let mut parts = part.split('@');
        let mut next = || parts.next().expect("three parts");
        let id = next().into();
        let [sent, until] = [next(), next()].map(|number| number.parse().expect("a number"));
        Admission { id, sent, until }
    };
    text.split_terminator(' ').map(admission).collect()
}

fn holder(found: &Bson) -> HolderElement<Texts> {
    let nothing = DamagedHolder { value: None, id: None, expires_at: None, is_document: false };
    let Some(document) = found.as_document() else {
        return HolderElement::Damaged(nothing);
    };
    if let Some(holder) = sound_holder(document) {
        return HolderElement::Holder(holder);
    }
    HolderElement::Damaged(DamagedHolder {
        value: document.get_str("value").ok().map(value),
        id: document.get_str("id").ok().map(Into::into),
        expires_at: document.get("expiresAt").and_then(date),
        is_document: true,
    })
}

fn sound_holder(document: &Document) -> Option<Holder<Texts>> {
    let number = |field| document.get_i64(field).ok();
    document.get_str("value").ok().zip(document.get_str("id").ok())?;
    number("ttlMs").zip(number("maxClockSkewMs"))?;
    let (permits, limit) = (number("permits")?, number("limit")?);
    let expires_at = document.get("expiresAt").and_then(date)?;
    // An attempt that finds it counts on from any number, and from zero where there is none.
    let writes = document.get("writes").and_then(integer).unwrap_or(0);
    let grant = Grant { writes, ..grant(document) };
    Some(Holder { grant, expires_at, permits, limit })
}
