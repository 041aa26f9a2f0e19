//! A lease document, as far as the checker reads it, and each change of one.

use mongo_lease::LeaseInfo;
use mongo_lease::mongodb::bson::{Bson, Document};
use serde::{Deserialize, Serialize};

/// A lease document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The holder; empty in a tombstone.
    pub(crate) value: String,
    /// The identity of the grant.
    pub(crate) grant: String,
    /// The worker's call that was granted it.
    pub(crate) call: String,
    /// The server's clock at the command that granted it, in milliseconds.
    pub(crate) acquired_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) promoted: String,
    pub(crate) queue: Vec<Waiting>,
}

/// An entry in the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) value: String,
    pub(crate) call: String,
    pub(crate) expires_at: i64,
}

/// One change, by the oplog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Its time in the oplog, as a token.
    pub(crate) token: u64,
    /// The server's clock, in milliseconds.
    pub(crate) wall: i64,
    pub(crate) name: String,
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
}

impl State {
    pub(super) fn of(document: &Document) -> State {
        let grant = document.get_document("grant").cloned().unwrap_or_default();
        let queue = document.get_array("queue").into_iter().flatten();
        State {
            value: text(document, "value"),
            grant: text(&grant, "id"),
            call: call(&grant),
            acquired_at: millis(&grant, "acquiredAt"),
            expires_at: millis(document, "expiresAt"),
            promoted: text(document, "promoted"),
            queue: queue.filter_map(Bson::as_document).map(Waiting::of).collect(),
        }
    }

    /// Whether the document names a holder, expired or not.
    pub(crate) fn is_held(&self) -> bool {
        !self.value.is_empty() && !LeaseInfo::is_tombstone_value(&self.value)
    }
}

impl Waiting {
    fn of(entry: &Document) -> Waiting {
        Waiting {
            value: text(entry, "value"),
            call: call(entry),
            expires_at: millis(entry, "expiresAt"),
        }
    }
}

impl Change {
    /// The grant that was made, if one was.
    pub(crate) fn granted(&self) -> Option<&State> {
        let after = self.after.as_ref().filter(|after| after.is_held())?;
        let is_new = self
            .before
            .as_ref()
            .is_none_or(|before| (&before.value, &before.grant) != (&after.value, &after.grant));
        is_new.then_some(after)
    }

    /// The grant that was ended, if one was.
    pub(crate) fn ended(&self) -> Option<&State> {
        let before = self.before.as_ref().filter(|before| before.is_held())?;
        let is_over = self
            .after
            .as_ref()
            .is_none_or(|after| (&before.value, &before.grant) != (&after.value, &after.grant));
        is_over.then_some(before)
    }

    /// Whether the former holder handed the lease to the new one.
    pub(crate) fn is_promotion(&self) -> bool {
        let promoted = |state: &State| state.promoted.clone();
        let before = self.before.as_ref().map(promoted).unwrap_or_default();
        self.granted().is_some_and(|after| {
            let id = after.promoted.rsplit_once('@').map(|(id, _)| id);
            after.promoted != before && id == Some(&after.grant)
        })
    }
}

/// The manager that made a value: the part before the hyphen.
pub(crate) fn manager(value: &str) -> &str {
    value.split_once('-').map_or(value, |(manager, _)| manager)
}

fn text(document: &Document, field: &str) -> String {
    document.get_str(field).unwrap_or_default().to_owned()
}

fn millis(document: &Document, field: &str) -> i64 {
    document.get_datetime(field).map_or(0, |date| date.timestamp_millis())
}

fn call(document: &Document) -> String {
    document.get_document("meta").map(|meta| text(meta, "call")).unwrap_or_default()
}
