//! The held leases by their documents, and the changes between documents. Pure: the time is an argument, in
//! milliseconds since 1970 by the server's clock.

use std::collections::{BTreeMap, HashMap, HashSet};

use mongo_lease::LeaseInfo;
use mongodb::bson::{Bson, Document, doc};
use serde_json::{Value, json};

use crate::text;

/// How long past its expiry a lease is shown as held. News of its renewal may be on its way.
pub(crate) const PATIENCE_MS: i64 = 250;

/// The fields of a lease document that are shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) acquired_at: Option<i64>,
    pub(crate) expiry: Expiry,
}

/// When a lease runs out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expiry {
    /// The document has no expiry: the lease is free.
    Free,
    At(i64),
    /// The expiry is not a date. The lease counts as held until a person repairs the document.
    Damaged,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It was held when the program started.
    Held,
    Granted,
    /// It was released, by its holder or by somebody else.
    Released,
    /// It expired.
    Expired,
}

/// A change of a lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) at: i64,
    pub(crate) kind: Kind,
    pub(crate) row: Row,
}

/// The held leases.
#[derive(Debug, Default)]
pub(crate) struct Board {
    held: BTreeMap<String, Row>,
    /// Lease names by document id: a deletion event has the id only.
    names: HashMap<String, String>,
}

/// The fields of a document that [`Row::of`] reads.
pub(crate) fn projection() -> Document {
    doc! { "name": 1, "value": 1, "expiresAt": 1,
    "grant.value": 1, "grant.owner": 1, "grant.acquiredAt": 1 }
}

impl Row {
    /// Reads a document; `None` if its name is not valid.
    pub(crate) fn of(document: &Document) -> Option<Row> {
        let value = document.get_str("value").ok().map(str::to_owned);
        // Another program changes `value` and leaves the rest: then the grant describes a former holder.
        let grant = document.get_document("grant").ok();
        let grant =
            grant.filter(|it| value.is_some() && it.get_str("value").ok() == value.as_deref());
        let date = |it: &Document, key| it.get_datetime(key).ok().map(|it| it.timestamp_millis());
        Some(Row {
            name: document.get_str("name").ok()?.to_owned(),
            owner: grant.and_then(|it| it.get_str("owner").ok()).map(str::to_owned),
            acquired_at: grant.and_then(|it| date(it, "acquiredAt")),
            expiry: match (document.get("expiresAt"), date(document, "expiresAt")) {
                (_, Some(at)) => Expiry::At(at),
                (None | Some(Bson::Null), None) => Expiry::Free,
                (Some(_), None) => Expiry::Damaged,
            },
            value,
        })
    }

    fn is_held(&self, now: i64) -> bool {
        match self.expiry {
            Expiry::Free => false,
            Expiry::At(at) => at > now,
            Expiry::Damaged => true,
        }
    }

    /// The holder, or the state in one word.
    pub(crate) fn holder(&self) -> String {
        match (&self.expiry, &self.owner, self.value.as_deref()) {
            (Expiry::Damaged, ..) => "damaged: expiresAt is not a date".to_owned(),
            (_, _, Some(value)) if LeaseInfo::is_tombstone_value(value) => {
                "reserved after its release".to_owned()
            }
            (_, _, Some(value)) if LeaseInfo::is_shared_value(value) => "several".to_owned(),
            (_, Some(owner), _) => text::printable(owner),
            (_, None, _) => "another program".to_owned(),
        }
    }

    /// The remaining time of the lease.
    pub(crate) fn left(&self, now: i64) -> String {
        match self.expiry {
            Expiry::At(at) if at > now => text::span(text::between(now, at)),
            Expiry::At(_) | Expiry::Free | Expiry::Damaged => "-".to_owned(),
        }
    }

    /// How long the lease has been held.
    pub(crate) fn held_for(&self, now: i64) -> String {
        self.acquired_at.map_or("-".to_owned(), |at| text::span(text::between(at, now)))
    }
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Kind::Held => "held",
            Kind::Granted => "granted",
            Kind::Released => "released",
            Kind::Expired => "expired",
        }
    }
}

impl Change {
    /// The JSON form. The keys are stable.
    pub(crate) fn report(&self) -> Value {
        let row = &self.row;
        let expires_at = match row.expiry {
            Expiry::At(at) => Some(at),
            Expiry::Free | Expiry::Damaged => None,
        };
        json!({
            "at": text::moment(self.at),
            "change": self.kind.as_str(),
            "name": row.name,
            "owner": row.owner,
            // the value of a lease that several hold is that of no holder.
            "value": row.value.as_ref().filter(|value| !LeaseInfo::is_shared_value(value)),
            "acquired_at": row.acquired_at.map(text::moment),
            "expires_at": expires_at.map(text::moment),
        })
    }
}

impl Board {
    /// The held leases, in the order of their names.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.held.values()
    }

    /// Applies the new state of a document.
    pub(crate) fn set(&mut self, id: &Bson, row: Row, now: i64) -> Option<Change> {
        self.names.insert(id.to_string(), row.name.clone());
        if !row.is_held(now) {
            let before = self.held.remove(&row.name)?;
            let ran_out = before.value == row.value && row.expiry != Expiry::Free;
            let kind = if ran_out { Kind::Expired } else { Kind::Released };
            return Some(Change { at: now, kind, row: before });
        }
        let before = self.held.insert(row.name.clone(), row.clone());
        let is_same = before.is_some_and(|before| before.value == row.value);
        (!is_same).then_some(Change { at: now, kind: Kind::Granted, row })
    }

    /// Applies the deletion of a document.
    pub(crate) fn gone(&mut self, id: &Bson, now: i64) -> Option<Change> {
        let name = self.names.remove(&id.to_string())?;
        let row = self.held.remove(&name)?;
        let kind = if row.is_held(now) { Kind::Released } else { Kind::Expired };
        Some(Change { at: now, kind, row })
    }

    /// Replaces the state of all documents.
    pub(crate) fn fill(&mut self, documents: Vec<(Bson, Row)>, now: i64) -> Vec<Change> {
        // Compared by name: the lease may have a new document id by now.
        let there: HashSet<&str> = documents.iter().map(|(_, row)| row.name.as_str()).collect();
        let mut changes = Vec::new();
        self.held.retain(|name, row| {
            let is_there = there.contains(name.as_str());
            if !is_there {
                let kind = if row.is_held(now) { Kind::Released } else { Kind::Expired };
                changes.push(Change { at: now, kind, row: row.clone() });
            }
            is_there
        });
        self.names.clear();
        changes.extend(documents.into_iter().filter_map(|(id, row)| self.set(&id, row, now)));
        changes
    }

    /// Removes the expired leases.
    pub(crate) fn expire(&mut self, now: i64) -> Vec<Change> {
        let mut over = Vec::new();
        self.held.retain(|_, row| {
            let is_held = row.is_held(now - PATIENCE_MS);
            if !is_held {
                over.push(Change { at: now, kind: Kind::Expired, row: row.clone() });
            }
            is_held
        });
        over
    }

    /// When the next lease expires unless it is renewed.
    pub(crate) fn next_expiry(&self) -> Option<i64> {
        let dates = self.held.values().filter_map(|row| match row.expiry {
            Expiry::At(at) => Some(at),
            Expiry::Free | Expiry::Damaged => None,
        });
        dates.min()
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, DateTime, Document, doc};

    use super::{Board, Change, Kind, PATIENCE_MS, Row};

    fn document(value: &str, expires_at: i64) -> Document {
        let expires_at = DateTime::from_millis(expires_at);
        let acquired_at = DateTime::from_millis(1);
        doc! { "name": "a", "value": value, "expiresAt": expires_at,
        "grant": { "value": value, "owner": "o@h:1", "acquiredAt": acquired_at } }
    }

    fn row(value: &str, expires_at: i64) -> Row {
        Row::of(&document(value, expires_at)).unwrap()
    }

    fn kind(change: Option<Change>) -> Option<Kind> {
        change.map(|change| change.kind)
    }

    const ID: Bson = Bson::Int32(1);

    #[test]
    fn a_grant_a_renewal_a_take_over_and_a_release() {
        let mut board = Board::default();
        assert_eq!(kind(board.set(&ID, row("v1", 100), 10)), Some(Kind::Granted));
        assert_eq!(board.set(&ID, row("v1", 200), 60), None, "a renewal is no change of hands");
        assert_eq!(board.next_expiry(), Some(200));
        let taken = board.set(&ID, row("v2", 300), 250).unwrap();
        assert_eq!((taken.kind, taken.row.value.as_deref()), (Kind::Granted, Some("v2")));
        let gone = board.gone(&ID, 260).unwrap();
        assert_eq!((gone.kind, gone.row.owner.as_deref()), (Kind::Released, Some("o@h:1")));
        assert_eq!(board.gone(&ID, 270), None);
        assert_eq!(board.rows().len(), 0);
    }

    #[test]
    fn a_lease_that_runs_out_expires_once() {
        let mut board = Board::default();
        board.set(&ID, row("v1", 100), 10);
        assert_eq!(board.expire(100 + PATIENCE_MS - 1), []);
        let over = board.expire(100 + PATIENCE_MS);
        assert_eq!(over.iter().map(|change| change.kind).collect::<Vec<_>>(), [Kind::Expired]);
        assert_eq!(board.expire(1_000), []);
        // Afterwards the server removes the document.
        assert_eq!(board.gone(&ID, 2_000), None);
    }

    #[test]
    fn a_release_that_leaves_the_document_is_told_from_an_expiry() {
        let mut board = Board::default();
        board.set(&ID, row("v1", 100), 10);
        assert_eq!(kind(board.set(&ID, row("", 20), 20)), Some(Kind::Released));
        board.set(&ID, row("v2", 100), 30);
        assert_eq!(kind(board.set(&ID, row("v2", 100), 100)), Some(Kind::Expired));
    }

    #[test]
    fn a_new_look_at_everything_tells_what_was_missed() {
        let mut board = Board::default();
        board.set(&ID, row("v1", 100), 10);
        assert_eq!(board.fill(vec![(ID, row("v1", 150))], 50), [], "nothing was missed");
        let changed = board.fill(vec![(Bson::Int32(2), row("v2", 200))], 60);
        assert_eq!(changed.iter().map(|change| change.kind).collect::<Vec<_>>(), [Kind::Granted]);
        let gone = board.fill(Vec::new(), 70);
        assert_eq!(gone.iter().map(|change| change.kind).collect::<Vec<_>>(), [Kind::Released]);
    }

    #[test]
    fn documents_of_others_are_read_for_what_they_are() {
        assert_eq!(Row::of(&doc! { "value": "v" }), None);
        assert_eq!(Row::of(&doc! { "name": 1 }), None);
        let mut left_behind = document("v1", 100);
        left_behind.insert("value", "v2");
        let row = Row::of(&left_behind).unwrap();
        assert_eq!((row.owner.as_deref(), row.holder().as_str()), (None, "another program"));
        let damaged = Row::of(&doc! { "name": "a", "value": "v", "expiresAt": 5 }).unwrap();
        assert!(damaged.is_held(i64::MAX));
        let free = Row::of(&doc! { "name": "a", "value": "v", "expiresAt": null }).unwrap();
        assert!(!free.is_held(0));
    }
}
