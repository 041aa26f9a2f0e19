//! A lease document, as far as the checker reads it, and each change of one: in the oplog of a server, or in another
//! store.

use std::sync::Arc;

use mongo_lease_core::bson::{Bson, Document};
use mongo_lease_core::info::LeaseInfo;
use serde::{Deserialize, Serialize};

use crate::permits::Permits;

/// A lease document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// When the whole document expires, by the server's clock in milliseconds.
    pub expires_at: i64,
    /// The holders, expired or not: none in a tombstone, one of an exclusive lease.
    pub grants: Vec<Grant>,
    /// The last promotion to an exclusive lease: the field `promoted`.
    pub promoted: String,
    /// The last promotions to shared use: the field `admitted`.
    pub admitted: String,
    /// The entries, in order.
    pub queue: Vec<Waiting>,
}

/// The identity of a grant, and the server's clock at the command that granted it, in milliseconds.
pub type GrantKey<'a> = (&'a str, i64);

/// A holder in the document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The text that identifies the holder.
    pub value: String,
    /// The identity of the grant.
    pub id: String,
    /// The call that was granted it: the text `call` in its metadata.
    pub call: String,
    /// The server's clock at the command that granted it, in milliseconds.
    pub acquired_at: i64,
    /// When it expires, by the server's clock in milliseconds.
    pub expires_at: i64,
    /// Its permits.
    pub permits: Permits,
}

/// An entry in the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The text that identifies the waiter, and the holder that it becomes.
    pub value: String,
    /// The call that waits: the text `call` in its metadata.
    pub call: String,
    /// When it expires, by the server's clock in milliseconds.
    pub expires_at: i64,
    /// The permits that it waits for.
    pub permits: Permits,
}

/// One change of one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The operation time of its command, as a token. Later changes have greater ones.
    pub token: u64,
    /// The server's clock, in milliseconds.
    pub wall: i64,
    /// The name of the lease.
    pub name: String,
    /// The document before it; `None` if there was none. It may be that after the last change of the name.
    pub before: Option<Arc<State>>,
    /// The document after it; `None` if it was deleted.
    pub after: Option<Arc<State>>,
}

impl State {
    /// Reads a document of format 1, as `docs/format.md` has it.
    pub fn of(document: &Document) -> State {
        let value = text(document, "value");
        let expires_at = millis(document, "expiresAt");
        let grants = if LeaseInfo::is_shared_value(&value) {
            documents(document, "holders").map(Grant::of).collect()
        } else if value.is_empty() || LeaseInfo::is_tombstone_value(&value) {
            Vec::new()
        } else {
            let grant = document.get_document("grant").cloned().unwrap_or_default();
            vec![Grant { value, expires_at, permits: Permits::EXCLUSIVE, ..Grant::of(&grant) }]
        };
        State {
            expires_at,
            grants,
            promoted: text(document, "promoted"),
            admitted: text(document, "admitted"),
            queue: documents(document, "queue").map(Waiting::of).collect(),
        }
    }

    /// The grant of the holder with this value.
    pub fn grant_of(&self, value: &str) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.value == value)
    }

    /// The holders at this moment.
    pub fn holders(&self, now: i64) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(move |grant| grant.expires_at > now)
    }

    /// Whether the entry has not expired, and its waiter has not been granted the lease.
    pub fn is_live(&self, entry: &Waiting, now: i64) -> bool {
        // A waiter whose share has expired waits again.
        let counts = |grant: &Grant| grant.permits.is_exclusive() || grant.expires_at > now;
        let holds = |grant: &Grant| grant.value == entry.value && counts(grant);
        entry.expires_at > now && !self.grants.iter().any(holds)
    }

    /// The texts that announce promotions to an exclusive lease and to shared use.
    fn announced(&self) -> [&str; 2] {
        [&self.promoted, &self.admitted]
    }

    fn has(&self, grant: &Grant) -> bool {
        self.grants.iter().any(|one| (&one.value, &one.id) == (&grant.value, &grant.id))
    }
}

impl Grant {
    /// Its identity, and when it was made: together they tell it from every other grant of its lease. A call's request
    /// that arrives again after its document was deleted makes a second grant of the same identity.
    pub fn key(&self) -> GrantKey<'_> {
        (&self.id, self.acquired_at)
    }

    fn of(holder: &Document) -> Grant {
        Grant {
            value: text(holder, "value"),
            id: text(holder, "id"),
            call: call(holder),
            acquired_at: millis(holder, "acquiredAt"),
            expires_at: millis(holder, "expiresAt"),
            permits: permits(holder),
        }
    }
}

impl Waiting {
    fn of(entry: &Document) -> Waiting {
        Waiting {
            value: text(entry, "value"),
            call: call(entry),
            expires_at: millis(entry, "expiresAt"),
            permits: permits(entry),
        }
    }
}

impl Change {
    /// The grants that were made.
    pub fn granted(&self) -> impl Iterator<Item = &Grant> {
        let before = self.before.as_ref();
        let grants = self.after.iter().flat_map(|after| &after.grants);
        grants.filter(move |grant| before.is_none_or(|before| !before.has(grant)))
    }

    /// The grants that were ended.
    pub fn ended(&self) -> impl Iterator<Item = &Grant> {
        let after = self.after.as_ref();
        let grants = self.before.iter().flat_map(|before| &before.grants);
        grants.filter(move |grant| after.is_none_or(|after| !after.has(grant)))
    }

    /// The grants that do not go on: those that were ended, and one that its call's late request has made anew.
    pub fn over(&self) -> impl Iterator<Item = &Grant> {
        let after = self.after.iter().flat_map(|after| &after.grants);
        let after: Vec<_> = after.map(Grant::key).collect();
        let grants = self.before.iter().flat_map(|before| &before.grants);
        grants.filter(move |grant| !after.contains(&grant.key()))
    }

    /// The grants of waiters that somebody else's command promoted.
    pub fn promoted(&self) -> impl Iterator<Item = &Grant> {
        let told = self.told();
        self.granted().filter(move |grant| told.contains(&grant.id.as_str()))
    }

    /// The grant of the call whose command this is, if it was granted one.
    pub fn asker(&self) -> Option<&Grant> {
        let mut granted = self.granted().peekable();
        granted.peek()?;
        let told = self.told();
        granted.find(|grant| !told.contains(&grant.id.as_str()))
    }

    /// The entry of the call whose command this is, if that command put it into the queue or prolonged its life. A
    /// release does neither.
    pub fn joiner(&self) -> Option<&Waiting> {
        let known = |entry: &Waiting| {
            let mut queue = self.before.iter().flat_map(|before| &before.queue);
            queue.any(|old| old.value == entry.value && old.expires_at >= entry.expires_at)
        };
        self.after.iter().flat_map(|after| &after.queue).find(|entry| !known(entry))
    }

    /// The ids of the grants that this change announces: each before an echo, and several parted by spaces.
    fn told(&self) -> Vec<&str> {
        let before = self.before.as_deref().map(State::announced).unwrap_or_default();
        let after = self.after.as_deref().map(State::announced).unwrap_or_default();
        let texts = before.into_iter().zip(after).filter(|(before, after)| before != after);
        let texts = texts.map(|(_, after)| after);
        let parts = texts.flat_map(str::split_whitespace);
        parts.filter_map(|part| part.split('@').next()).collect()
    }
}

/// The manager that made a value: the part before the hyphen.
pub fn manager(value: &str) -> &str {
    value.split_once('-').map_or(value, |(manager, _)| manager)
}

fn documents<'a>(document: &'a Document, field: &str) -> impl Iterator<Item = &'a Document> {
    document.get_array(field).into_iter().flatten().filter_map(Bson::as_document)
}

fn text(document: &Document, field: &str) -> String {
    document.get_str(field).unwrap_or_default().to_owned()
}

fn millis(document: &Document, field: &str) -> i64 {
    document.get_datetime(field).map_or(0, |date| date.timestamp_millis())
}

fn call(document: &Document) -> String {
    document.get_document("metadata").map(|meta| text(meta, "call")).unwrap_or_default()
}

/// The plain form has neither number: it is that of an exclusive lease.
fn permits(document: &Document) -> Permits {
    let number = |field| document.get_i64(field).ok().and_then(|number| number.try_into().ok());
    match (number("permits"), number("limit")) {
        (Some(count), Some(limit)) => Permits { count, limit },
        _ => Permits::EXCLUSIVE,
    }
}

#[cfg(test)]
mod tests {
    use mongo_lease_core::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn holders_speak_only_in_shared_use() {
        let holder = doc! {
            "value": "b-1",
            "id": "b-1.1",
            "expiresAt": DateTime::from_millis(9),
            "permits": 2_i64,
            "limit": 3_i64,
        };
        let grant = doc! { "id": "a-1.1", "acquiredAt": DateTime::from_millis(1) };
        let mut document = doc! {
            "value": "mongo-lease/shared",
            "expiresAt": DateTime::from_millis(9),
            "grant": grant,
            "holders": [holder],
        };
        let shared = State::of(&document);
        let permits = Permits { count: 2, limit: 3 };
        assert_eq!((&shared.grants[0].id[..], shared.grants[0].permits), ("b-1.1", permits));
        document.insert("value", "a-1");
        let exclusive = State::of(&document);
        assert_eq!((&exclusive.grants[0].id[..], exclusive.grants[0].expires_at), ("a-1.1", 9));
        document.insert("value", "");
        assert_eq!(State::of(&document).grants, []);
    }

    #[test]
    fn a_promotion_is_told_from_an_own_grant() {
        let grant =
            |id: &str| Grant { value: id.to_owned(), id: id.to_owned(), ..Grant::default() };
        let state = |admitted: &str, ids: &[&str]| State {
            admitted: admitted.to_owned(),
            grants: ids.iter().map(|id| grant(id)).collect(),
            ..State::default()
        };
        let before = Some(Arc::new(state("", &["a", "b"])));
        let after = Some(Arc::new(state("c@1@2 d@3@4", &["b", "c", "d", "e"])));
        let change = Change { token: 1, wall: 1, name: String::new(), before, after };
        let ids = |grants: Vec<&Grant>| grants.iter().map(|it| it.id.clone()).collect::<String>();
        assert_eq!(ids(change.granted().collect()), "cde");
        assert_eq!(ids(change.ended().collect()), "a");
        assert_eq!(ids(change.promoted().collect()), "cd");
        assert_eq!(ids(change.asker().into_iter().collect()), "e");
        assert_eq!(ids(change.over().collect()), "a");
        let anew = Grant { acquired_at: 7, ..grant("b") };
        let after = Some(Arc::new(State { grants: vec![anew], ..State::default() }));
        assert_eq!(ids(Change { after, ..change }.over().collect()), "ab", "made anew");
    }
}
