//! Renews many leases of one manager in one command, or resumes or renews a detached one.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use super::reply::{Renewed, decode_update};
use super::snapshot::{self, LeaseSnapshot};
use super::{
    echo, grant_field, held, is_date, literal, majority, one_more_write, path, simple_collation,
    update_many,
};
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::rules::ids::GrantId;
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, millis_up};
use crate::schema::{self, grant};

/// The identity of one grant. In one piece of memory, because a process may hold many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GrantKey {
    /// The name, the value, and the grant id; the value is part of the id where the id begins with it.
    texts: Box<str>,
    /// The length of the name, in bytes.
    name: u32,
    /// The length of the value, in bytes; less than zero where the value is part of the id.
    value: i32,
}

impl GrantKey {
    pub(crate) fn new(name: &str, value: &str, grant_id: &GrantId) -> GrantKey {
        let grant_id = grant_id.as_str();
        let value_len = i32::try_from(value.len()).unwrap_or(i32::MAX);
        let (texts, value) = match grant_id.starts_with(value) {
            true => (format!("{name}{grant_id}"), -value_len),
            false => (format!("{name}{value}{grant_id}"), value_len),
        };
        GrantKey { texts: texts.into(), name: u32::try_from(name.len()).unwrap_or(u32::MAX), value }
    }

    #[inline]
    pub(crate) fn name(&self) -> &str {
        &self.texts[..self.name as usize]
    }

    #[inline]
    pub(crate) fn value(&self) -> &str {
        &self.texts[self.name as usize..][..self.value.unsigned_abs() as usize]
    }

    #[inline]
    pub(crate) fn grant_id(&self) -> &str {
        // Nothing is left out where the value is part of the id.
        let before = self.value.max(0).unsigned_abs();
        &self.texts[self.name as usize..][before as usize..]
    }
}

/// Renews each of these grants that is still held. The effect on each is `spec::renew`.
///
/// The filter takes names, values and ids from three lists, so it could match a name with another's value. It does not:
/// an id is random and belongs to one name and one value.
#[derive(Clone, Debug)]
pub(crate) struct RenewMany {
    pub(crate) grants: Vec<Arc<GrantKey>>,
}

impl Command for RenewMany {
    type Reply = Renewed;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let every = |field: fn(&GrantKey) -> &str| {
            let list: Vec<Bson> = self.grants.iter().map(|grant| field(grant).into()).collect();
            doc! { "$in": list }
        };
        let filter = doc! {
            schema::NAME: every(GrantKey::name),
            schema::VALUE: every(GrantKey::value),
            grant_field(grant::ID): every(GrantKey::grant_id),
            // A corrupt document is not repaired; its holder is told that the lease is lost. Written as an expression,
            // because the server would answer a plain test of the type by the TTL index, and could read all of that.
            "$expr": is_date(schema::EXPIRES_AT),
        };
        update_many(collection, filter, prolonged(sent))
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Renewed, Cause> {
        decode_update(reply, sent)
    }
}

/// Resumes a lease that another process detached: renews it under a new grant id, if it is still held. Its effect is
/// `spec::resume`.
///
/// The new id invalidates the old key: a second resume with it finds nothing. The caller chooses the id before it
/// sends, so a repetition after a lost reply finds what the first attempt resumed.
#[derive(Clone, Debug)]
pub(crate) struct Resume {
    /// The key under which the lease was detached.
    pub(crate) key: GrantKey,
    /// The grant id from now on. The key's own: then the key stays valid, and the lease is only renewed.
    pub(crate) fresh_id: GrantId,
    /// The ttl from now on. `None` keeps that of the document.
    pub(crate) ttl: Option<Duration>,
}

impl Command for Resume {
    /// When it was sent, and the document that was found; `None` when the lease is not held any more.
    type Reply = Option<(Instant, LeaseSnapshot)>;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut query = held_with_date(&self.key);
        let id = grant_field(grant::ID);
        query.insert(&id, doc! { "$in": [self.key.grant_id(), self.fresh_id.as_str()] });
        // A detached lease may expire before it is resumed, and then anybody may acquire it.
        query.insert("$expr", doc! { "$gt": [path(schema::EXPIRES_AT), "$$NOW"] });
        let ttl = self.ttl.map(millis_up);
        let mut resumed = match ttl {
            None => prolonged(sent),
            Some(ttl) => prolonged_for(Bson::Int64(ttl), sent),
        };
        resumed.insert(id, literal(self.fresh_id.as_str()));
        if let Some(ttl) = ttl {
            resumed.insert(grant_field(grant::TTL_MS), literal(ttl));
        }
        doc! {
            "findAndModify": collection,
            "query": query,
            "update": [{ "$set": resumed }],
            "new": true,
            "fields": snapshot::projection(),
            "collation": simple_collation(),
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Self::Reply, Cause> {
        let Ok(document) = reply.get_document("value") else {
            return Ok(None);
        };
        let seen = snapshot::read(document);
        // The filter matched the grant, and whoever relies on it checks for itself.
        let grant_id = document.get_document(schema::GRANT).and_then(|it| it.get_str(grant::ID));
        let is_ours = seen.info.value.as_deref() == Some(self.key.value())
            && grant_id.ok() == Some(self.fresh_id.as_str());
        match is_ours {
            true => Ok(Some((sent, seen))),
            false => Err(Cause::Reply("the reply to a resume contains another grant".to_owned())),
        }
    }
}

/// The filter for one grant whose expiry is a date. A corrupt document is not repaired.
pub(super) fn held_with_date(key: &GrantKey) -> Document {
    let mut filter = held(key.name(), key.value(), Some(key.grant_id()));
    filter.insert(schema::EXPIRES_AT, doc! { "$type": "date" });
    filter
}

/// The fields that a renewal changes, by the ttl and the maximum clock skew in the document.
///
/// `$max` is necessary. The server takes `$$NOW` when a command arrives, before it waits for locks. A plain value would
/// let a delayed older renewal shorten a newer one, and the holder would rely on the lease for longer than it has it.
pub(super) fn prolonged(sent: Instant) -> Document {
    prolonged_for(path(&grant_field(grant::TTL_MS)).into(), sent)
}

/// The same, for another ttl than that of the document.
fn prolonged_for(ttl: Bson, sent: Instant) -> Document {
    let skew = path(&grant_field(grant::MAX_CLOCK_SKEW_MS));
    let until = doc! { "$add": ["$$NOW", ttl, skew] };
    doc! {
        schema::EXPIRES_AT: { "$max": [path(schema::EXPIRES_AT), until] },
        grant_field(grant::SENT): echo(sent),
        grant_field(grant::WRITES): one_more_write(),
    }
}
