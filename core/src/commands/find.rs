//! Reads leases: one, several, or a page of many.

use crate::bson::{Bson, Document, Timestamp, doc};
use crate::format::{self, grant, holder};
use crate::rules::pattern::NamePattern;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;

use super::snapshot::{self, LeaseSnapshot};
use super::{grant_field, majority_read, path, simple_collation};
use crate::commands::Command;
use crate::commands::DecodeError;

/// Reads leases by their names.
#[derive(Clone, Debug)]
pub struct FindLeases {
    /// The names of the leases.
    pub names: Vec<String>,
    /// The lane in which it is sent.
    pub lane: Lane,
    /// The read has to see all writes up to this time. `None`: the newest majority-committed data.
    pub after: Option<Timestamp>,
}

impl Command for FindLeases {
    type Reply = Vec<LeaseSnapshot>;

    fn lane(&self) -> Lane {
        self.lane
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let limit = i64::try_from(self.names.len()).unwrap_or(i64::MAX);
        let filter = match self.names.as_slice() {
            [name] => doc! { format::NAME: name },
            names => doc! { format::NAME: { "$in": names } },
        };
        let mut command = find(collection, filter, limit);
        if let Some(after) = self.after {
            let read_concern = doc! { "level": "majority", "afterClusterTime": Bson::from(after) };
            command.insert("readConcern", read_concern);
        }
        command
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        first_batch(reply)
    }
}

/// Reads one lease with its holders.
#[derive(Clone, Debug)]
pub struct GetLease {
    /// The lease's name.
    pub name: String,
}

impl Command for GetLease {
    type Reply = Vec<LeaseSnapshot>;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        with_holders(find(collection, doc! { format::NAME: &self.name }, 1))
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        Ok(documents(reply)?.map(snapshot::read_with_holders).collect())
    }
}

/// Reads who was granted what by a batch, with its token.
#[derive(Clone, Debug)]
pub struct FindGrants(pub FindLeases);

impl Command for FindGrants {
    type Reply = Vec<LeaseSnapshot>;

    fn lane(&self) -> Lane {
        self.0.lane()
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        self.0.build(collection, sent)
    }

    fn needs_majority_read(&self) -> bool {
        true
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        self.0.decode(reply, sent)
    }
}

/// Reads one page of a listing: leases whose names come after `after`, in the order of names.
///
/// Each page is a command of its own, so no cursor can be left open.
#[derive(Clone, Debug)]
pub struct Page {
    /// The pattern that the names must match.
    pub pattern: NamePattern,
    /// The owner that the leases must have, as `label@host:pid`.
    pub owner: Option<String>,
    /// The last name of the page before.
    pub after: Option<String>,
    /// How many leases it has at most.
    pub limit: i64,
}

impl Command for Page {
    type Reply = Vec<LeaseSnapshot>;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        // Only strings are lease names: `$type` keeps other programs' documents out. An array of strings would pass
        // that check, and appear again on every page.
        let mut name = doc! { "$type": "string", "$not": { "$type": "array" } };
        if let Some(after) = &self.after {
            name.insert("$gt", after);
        }
        if let Some(regex) = self.pattern.regex() {
            name.insert("$regex", regex);
            name.insert("$options", "s");
        }
        let mut filter = doc! { format::NAME: name };
        if let Some(owner) = &self.owner {
            filter.insert("$or", vec![is_held_by(owner), is_shared_by(owner)]);
        }
        let mut command = find(collection, filter, self.limit);
        command.insert("sort", doc! { format::NAME: 1 });
        with_holders(command)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        Ok(documents(reply)?.map(snapshot::read_with_holders).collect())
    }
}

/// A filter: this owner has the whole lease.
fn is_held_by(owner: &str) -> Document {
    // A grant that another program left in the document does not describe the current holder.
    let current = [path(&grant_field(grant::VALUE)), path(format::VALUE)].map(Bson::from);
    doc! { grant_field(grant::OWNER): owner, "$expr": { "$eq": current.to_vec() } }
}

/// A filter: this owner is among the holders of a lease in shared use. One that has expired may be among them.
fn is_shared_by(owner: &str) -> Document {
    let is_owner = format!("{}.{}", format::HOLDERS, holder::OWNER);
    doc! { format::VALUE: format::SHARED_VALUE, is_owner: owner }
}

fn with_holders(mut find: Document) -> Document {
    find.insert("projection", snapshot::projection_with_holders());
    find
}

fn find(collection: &str, filter: Document, limit: i64) -> Document {
    doc! {
        "find": collection,
        "filter": filter,
        "projection": snapshot::projection(),
        "limit": limit,
        "batchSize": limit,
        "singleBatch": true,
        "collation": simple_collation(),
        "readConcern": majority_read(),
    }
}

fn first_batch(reply: &Document) -> Result<Vec<LeaseSnapshot>, DecodeError> {
    Ok(documents(reply)?.map(snapshot::read).collect())
}

/// The documents of a reply's only batch.
pub(super) fn documents(reply: &Document) -> Result<impl Iterator<Item = &Document>, DecodeError> {
    let batch = reply
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("firstBatch"))
        .map_err(|_| DecodeError::Reply("the reply to a find contains no batch".to_owned()))?;
    Ok(batch.iter().filter_map(Bson::as_document))
}
