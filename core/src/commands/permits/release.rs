//! Release in shared use: ends a grant, leaves the queue, and admits the waiters that fit then.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::format::{self, entry, grant, holder};
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::rules::tombstone::TombstoneValues;

use super::fitting::{self, Filling};
use super::{
    ELEMENTS, KEPT, has_no_holder, is_of, is_shared, is_unexpired, line, of_each, with,
    with_elements,
};
use crate::commands::DecodeError;
use crate::commands::release::{GrantMatch, ReleaseTarget};
use crate::commands::renew::GrantKey;
use crate::commands::reply::{Deleted, decode_counted, no_write_error};
use crate::commands::{
    Command, grant_field, has_sound_expiry, literal, majority, path, queue, simple_collation,
};

/// Ends a grant in either form, takes its value out of the queue, and admits as many waiters as fit. Its effect is
/// `spec::permits::release_and_admit`.
#[derive(Clone, Debug)]
pub struct ReleaseAndAdmit {
    /// The holder or the call.
    pub target: ReleaseTarget,
    /// Whether an entry in the queue ends too.
    pub scope: ReleaseScope,
    /// A value for the document of a lease that ends because no waiter is alive.
    pub values: TombstoneValues,
}

/// The effects that a release may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseScope {
    /// A grant, of a share or of the exclusive lease.
    Grant,
    /// The same; and a target that holds nothing leaves the queue.
    GrantOrEntry,
}

/// Ends one grant in shared use where nobody is in the queue. Its effect is `spec::permits::release_permit`.
#[derive(Clone, Debug)]
pub struct ReleasePermit {
    /// The grant.
    pub key: GrantKey,
    /// A value for the document behind the last holder.
    pub values: TombstoneValues,
}

/// Deletes the document of a lease whose only holder this is, where nobody is in the queue. Its effect is
/// `spec::permits::delete_last_holder`.
#[derive(Clone, Debug)]
pub struct DeleteLastHolder {
    /// The grant.
    pub key: GrantKey,
}

/// A filter on texts, for this grant.
fn id_filter(grant: &GrantMatch) -> Option<Bson> {
    match grant {
        GrantMatch::Any => None,
        GrantMatch::Grant(id) => Some(id.as_str().into()),
        GrantMatch::Call { call_id, except } => {
            let grants = call_id.grants();
            let mut of_call = doc! { "$gte": grants.start, "$lt": grants.end };
            if let Some(taken) = except {
                of_call.insert("$ne", taken.as_str());
            }
            Some(of_call.into())
        }
    }
}

/// Conditions within a pipeline: the id at this path is that of the grant.
pub(super) fn id_conditions(grant: &GrantMatch, id: &str) -> Vec<Document> {
    match grant {
        GrantMatch::Any => Vec::new(),
        GrantMatch::Grant(meant) => vec![doc! { "$eq": [id, literal(meant.as_str())] }],
        GrantMatch::Call { call_id, except } => {
            let grants = call_id.grants();
            let mut all = vec![
                doc! { "$gte": [id, literal(grants.start)] },
                doc! { "$lt": [id, literal(grants.end)] },
            ];
            let taken = except.as_ref();
            all.extend(taken.map(|taken| doc! { "$ne": [id, literal(taken.as_str())] }));
            all
        }
    }
}

fn update(collection: &str, filter: Document, pipeline: Vec<Document>) -> Document {
    doc! {
        "update": collection,
        "updates": [{ "q": filter, "u": pipeline, "collation": simple_collation() }],
        "writeConcern": majority(),
    }
}

impl Command for ReleaseAndAdmit {
    type Reply = Deleted;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let nobody = self.values.of_statement(0);
        let admitted = Filling {
            line: self.line(),
            asker: None,
            refreshed: KEPT.into(),
            nobody: fitting::ended(&nobody),
        };
        let changes = doc! { "$cond": ["$$open", admitted.changes(|it| it), self.closed()] };
        let changes = with("open", self.is_open(), changes);
        let stays = doc! { "$and": [is_unexpired(), { "$not": self.is_target() }] };
        let kept = doc! { "$cond": ["$$shared", queue::filter(ELEMENTS, stays), []] };
        let changes = with_elements(with("shared", is_shared(), with("kept", kept, changes)));
        let changed = doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", changes] } };
        update(collection, self.filter(), vec![changed, without_empty_lists()])
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Deleted, DecodeError> {
        no_write_error(reply, 1)?;
        decode_counted(reply)
    }
}

impl ReleaseAndAdmit {
    fn filter(&self) -> Document {
        let ReleaseTarget { name, value, grant } = &self.target;
        let mut holder = doc! { holder::VALUE: value };
        let mut exclusive = doc! { format::VALUE: value };
        if let Some(id) = id_filter(grant) {
            holder.insert(holder::ID, id.clone());
            exclusive.insert(grant_field(grant::ID), id);
        }
        let shared = doc! {
            format::VALUE: format::SHARED_VALUE,
            format::HOLDERS: { "$elemMatch": holder },
        };
        let mut any = vec![shared, exclusive];
        if self.scope == ReleaseScope::GrantOrEntry {
            any.push(queue::has_element_of(value.as_str()));
        }
        // A corrupt document is not repaired.
        doc! { format::NAME: name, format::EXPIRES_AT: { "$type": "date" }, "$or": any }
    }

    /// A condition on one holder: it is the target.
    fn is_target(&self) -> Document {
        let mut all = vec![is_of(&self.target.value)];
        all.extend(id_conditions(&self.target.grant, &of_each(holder::ID)));
        doc! { "$and": all }
    }

    /// The waiters that may be admitted.
    fn line(&self) -> Document {
        let is_other = doc! { "$ne": [of_each(entry::VALUE), literal(&self.target.value)] };
        queue::filter(line(None), is_other)
    }

    /// Whether anybody may be admitted: the lease is free, or the target's, or in shared use by holders that count.
    fn is_open(&self) -> Document {
        let counts = doc! { "$or": [is_unexpired(), self.is_target()] };
        let any = doc! { "$gt": [{ "$size": queue::filter(ELEMENTS, counts) }, 0] };
        let value = doc! { "$eq": [path(format::VALUE), literal(&self.target.value)] };
        let mut exclusive = vec![value];
        exclusive.extend(id_conditions(&self.target.grant, &path(&grant_field(grant::ID))));
        doc! { "$or": [has_no_holder(), { "$and": ["$$shared", any] }, { "$and": exclusive }] }
    }

    /// The fields that change where nobody may be admitted: the target alone goes.
    fn closed(&self) -> Document {
        let is_other = doc! { "$ne": [of_each(entry::VALUE), literal(&self.target.value)] };
        let queue = queue::filter(queue::entries(), is_other);
        let holders = queue::filter(ELEMENTS, doc! { "$not": self.is_target() });
        let both = doc! { format::QUEUE: &queue, format::HOLDERS: holders };
        let has_list = doc! { "$isArray": [path(format::HOLDERS)] };
        doc! { "$cond": [has_list, both, { format::QUEUE: queue }] }
    }
}

fn without_empty_lists() -> Document {
    let kept = |field: &str| {
        let list = path(field);
        doc! { "$cond": [{ "$eq": [&list, []] }, "$$REMOVE", &list] }
    };
    let (queue, holders) = (kept(format::QUEUE), kept(format::HOLDERS));
    doc! { "$set": { format::QUEUE: queue, format::HOLDERS: holders } }
}

/// A filter: nobody is in the queue, live or dead.
fn without_queue(mut filter: Document) -> Document {
    filter.insert(format!("{}.0", format::QUEUE), doc! { "$exists": false });
    filter
}

impl Command for ReleasePermit {
    type Reply = Deleted;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let own = doc! { holder::VALUE: self.key.value(), holder::ID: self.key.grant_id() };
        let filter = without_queue(doc! {
            format::NAME: self.key.name(),
            format::VALUE: format::SHARED_VALUE,
            format::EXPIRES_AT: { "$type": "date" },
            format::HOLDERS: { "$elemMatch": own, "$not": super::renew::is_undated() },
        });
        let is_other = doc! { "$ne": [of_each(holder::ID), literal(self.key.grant_id())] };
        let others = queue::filter(path(format::HOLDERS), is_other);
        let is_empty = doc! { "$eq": [path(format::HOLDERS), []] };
        let latest = doc! { "$max": path(&format!("{}.{}", format::HOLDERS, holder::EXPIRES_AT)) };
        let value = self.values.of_statement(0);
        let set = doc! {
            format::VALUE: { "$cond": [&is_empty, value, format::SHARED_VALUE] },
            format::EXPIRES_AT: { "$cond": [is_empty, DateTime::from_millis(0), latest] },
        };
        let pipeline = vec![doc! { "$set": { format::HOLDERS: others } }, doc! { "$set": set }];
        update(collection, filter, pipeline)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Deleted, DecodeError> {
        no_write_error(reply, 1)?;
        decode_counted(reply)
    }
}

impl Command for DeleteLastHolder {
    type Reply = Deleted;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let first = |field: &str| format!("{}.0.{field}", format::HOLDERS);
        let filter = without_queue(doc! {
            format::NAME: self.key.name(),
            format::VALUE: format::SHARED_VALUE,
            format::HOLDERS: { "$size": 1 },
            first(holder::VALUE): self.key.value(),
            first(holder::ID): self.key.grant_id(),
            "$expr": has_sound_expiry(),
        });
        doc! {
            "delete": collection,
            "deletes": [{ "q": filter, "limit": 1, "collation": simple_collation() }],
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Deleted, DecodeError> {
        no_write_error(reply, 1)?;
        decode_counted(reply)
    }
}
