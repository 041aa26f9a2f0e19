//! Reads a real document in the specification's terms.

use crate::bson::{Bson, Document};
use crate::rules::permits::Permits;
use crate::spec::{self, Element, Entry, Expiry, Grant, Promoted, Queue, Types};
use crate::spec::{Admission, DamagedHolder, Holder, HolderElement, Holders};

/// Types that are texts in a document.
pub(super) trait Readable: Types {
    /// The value of an entry or a grant whose value is no text. No call has it.
    fn no_text() -> Self::Value;
    /// The id of a grant without one.
    fn no_id() -> Self::GrantId;

    fn value(text: &str) -> Self::Value;
    fn id(text: &str) -> Self::GrantId;
    /// The owner and the metadata of a grant, an entry or a holder.
    fn details(found: &Document) -> Self::Details;
}

/// The document. A field that is missing or of a foreign type becomes one that no command writes.
pub(super) fn document<T: Readable>(found: &Document) -> spec::Document<T> {
    spec::Document {
        value: found.get_str("value").ok().map(T::value),
        expiry: match found.get("expiresAt") {
            None | Some(Bson::Null) => Expiry::Absent,
            Some(Bson::DateTime(at)) => Expiry::At(at.timestamp_millis()),
            Some(_) => Expiry::Damaged,
        },
        grant: found.get_document("grant").ok().map(grant),
        queue: queue(found.get("queue")),
        promoted: found.get_str("promoted").ok().map(promoted::<T>),
        holders: holders(found.get("holders")),
        admitted: found.get_str("admitted").map(admitted::<T>).unwrap_or_default(),
    }
}

fn grant<T: Readable>(found: &Document) -> Grant<T> {
    let number = |field: &str| match found.get(field) {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(_) | None => i64::MIN,
    };
    Grant {
        value: found.get_str("value").map_or_else(|_| T::no_text(), T::value),
        id: found.get_str("id").map_or_else(|_| T::no_id(), T::id),
        sent: number("sentMicros"),
        acquired_at: found.get_datetime("acquiredAt").map_or(0, |at| at.timestamp_millis()),
        ttl: number("ttlMs"),
        max_clock_skew: number("maxClockSkewMs"),
        writes: number("writes"),
        details: T::details(found),
    }
}

/// `queue`.
pub(super) fn queue<T: Readable>(found: Option<&Bson>) -> Queue<T> {
    match found {
        None => Queue::Absent,
        Some(Bson::Array(elements)) => Queue::List(elements.iter().map(element).collect()),
        Some(_) => Queue::Damaged,
    }
}

fn element<T: Readable>(found: &Bson) -> Element<T> {
    let Some(document) = found.as_document() else {
        return Element::Damaged(None);
    };
    let shown = document.get("value").map(|value| value.as_str().map_or_else(T::no_text, T::value));
    let is_sound = |entry: &Entry<T>| {
        let number = |number| u32::try_from(number).ok();
        let permits = number(entry.permits).zip(number(entry.limit));
        let is_valid = permits.is_some_and(|(count, limit)| Permits::new(count, limit).is_ok());
        entry.ttl < i64::MAX && entry.max_clock_skew < i64::MAX && is_valid
    };
    match entry::<T>(document).filter(is_sound) {
        Some(entry) => Element::Entry(entry),
        None => Element::Damaged(shown),
    }
}

fn entry<T: Readable>(document: &Document) -> Option<Entry<T>> {
    let date = |field| document.get_datetime(field).ok().map(|at| at.timestamp_millis());
    let number = |field| document.get_i64(field).ok();
    Some(Entry {
        value: T::value(document.get_str("value").ok()?),
        id: T::id(document.get_str("id").ok()?),
        sent: number("sentMicros")?,
        heartbeat_at: date("heartbeatAt")?,
        expires_at: date("expiresAt")?,
        ttl: number("ttlMs")?,
        max_clock_skew: number("maxClockSkewMs")?,
        permits: number("permits")?,
        limit: number("limit")?,
        details: T::details(document),
    })
}

/// `promoted`. A recheck's times are the server's clock, and matter only by being there.
fn promoted<T: Readable>(text: &str) -> Promoted<T> {
    let (id, sent) = text.rsplit_once('@').unwrap();
    let id = T::id(id);
    match sent.strip_prefix('!') {
        Some(millis) => {
            let times: Vec<i64> = millis.split('-').map(|time| time.parse().unwrap()).collect();
            assert!(times.len() <= 2, "{text}");
            Promoted::Recheck { id }
        }
        None => Promoted::Entry { id, sent: sent.parse().unwrap() },
    }
}

/// `admitted`.
fn admitted<T: Readable>(text: &str) -> Vec<Admission<T>> {
    let admission = |part: &str| {
        let mut parts = part.split('@');
        let mut next = || parts.next().expect("three parts");
        let id = T::id(next());
        let [sent, until] = [next(), next()].map(|number| number.parse().expect("a number"));
        Admission { id, sent, until }
    };
    text.split_terminator(' ').map(admission).collect()
}

/// `holders`.
pub(super) fn holders<T: Readable>(found: Option<&Bson>) -> Holders<T> {
    match found {
        None => Holders::Absent,
        Some(Bson::Array(elements)) => Holders::List(elements.iter().map(holder).collect()),
        Some(_) => Holders::Damaged,
    }
}

fn holder<T: Readable>(found: &Bson) -> HolderElement<T> {
    let Some(document) = found.as_document() else {
        return HolderElement::Damaged(DamagedHolder {
            value: None,
            id: None,
            expires_at: None,
            is_document: false,
        });
    };
    if let Some(holder) = sound_holder(document) {
        return HolderElement::Holder(holder);
    }
    HolderElement::Damaged(DamagedHolder {
        value: document.get_str("value").ok().map(T::value),
        id: document.get_str("id").ok().map(T::id),
        expires_at: document.get_datetime("expiresAt").ok().map(|at| at.timestamp_millis()),
        is_document: true,
    })
}

fn sound_holder<T: Readable>(document: &Document) -> Option<Holder<T>> {
    let date = |field| document.get_datetime(field).ok().map(|at| at.timestamp_millis());
    let number = |field| document.get_i64(field).ok();
    // An attempt that finds it counts on from any number, and from zero where there is none.
    let writes = match document.get("writes") {
        Some(Bson::Int64(writes)) => *writes,
        Some(Bson::Int32(writes)) => i64::from(*writes),
        Some(_) | None => 0,
    };
    let grant = Grant {
        value: T::value(document.get_str("value").ok()?),
        id: T::id(document.get_str("id").ok()?),
        sent: number("sentMicros").unwrap_or(i64::MIN),
        acquired_at: date("acquiredAt").unwrap_or(0),
        ttl: number("ttlMs")?,
        max_clock_skew: number("maxClockSkewMs")?,
        writes,
        details: T::details(document),
    };
    let (permits, limit) = (number("permits")?, number("limit")?);
    Some(Holder { grant, expires_at: date("expiresAt")?, permits, limit })
}
