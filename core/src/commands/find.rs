//! Reads leases: one, several, or a page of many; and the holders of those that several hold.

use super::*;
use crate::rules::pattern::NamePattern;

/// Reads leases by their names.
#[derive(Clone, Debug)]
pub struct FindLeases {
    /// The names of the leases.
    pub names: Vec<String>,
    /// The read has to see all writes up to this time. `None`: the newest majority-committed data.
    pub after: Option<Timestamp>,
}

impl Command for FindLeases {
    type Reply = Vec<LeaseSnapshot>;
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let filter = match self.names.as_slice() {
            [name] => doc! { format::NAME: name },
            names => doc! { format::NAME: { "$in": names } },
        };
        let mut command = find(collection, filter, snapshot::projection(), self.names.len());
        if let Some(after) = self.after {
            command.insert("readConcern", with(majority_read(), "afterClusterTime", after));
        }
        command
    }

    fn sees_all_until(&self) -> Option<Timestamp> {
        self.after
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        Ok(documents(reply)?.map(snapshot::read).collect())
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
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let filter = doc! { format::NAME: &self.name };
        find(collection, filter, snapshot::projection_with_holders(), 1)
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
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        self.0.build(collection, sent)
    }

    fn needs_majority_read(&self) -> bool {
        true
    }

    fn sees_all_until(&self) -> Option<Timestamp> {
        self.0.after
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        self.0.decode(reply, sent)
    }
}

/// Reads leases as the primary has them, before a majority has that: for the refusals of a batch, which count at once.
/// It tells of no grant.
#[derive(Clone, Debug)]
pub struct FindApplied(pub FindLeases);

impl Command for FindApplied {
    type Reply = Vec<LeaseSnapshot>;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        with(self.0.build(collection, sent), "readConcern", doc! { "level": "local" })
    }

    fn reads_applied(&self) -> bool {
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
    const LANE: Lane = Lane::Acquire;

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
            // A grant that another program left in the document does not describe the current holder.
            let is_current = eq(grant_path(grant::VALUE), path(format::VALUE));
            let is_held = doc! { grant_field(grant::OWNER): owner, "$expr": is_current };
            // One that has expired may be among the holders.
            let of_holders = format!("{}.{}", format::HOLDERS, holder::OWNER);
            let is_shared = doc! { format::VALUE: format::SHARED_VALUE, of_holders: owner };
            filter.insert("$or", vec![is_held, is_shared]);
        }
        let projection = snapshot::projection_with_holders();
        with(find(collection, filter, projection, self.limit), "sort", doc! { format::NAME: 1 })
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<LeaseSnapshot>, DecodeError> {
        Ok(documents(reply)?.map(snapshot::read_with_holders).collect())
    }
}

/// Reads the leases of these grants, with these holders alone.
///
/// A lease may have very many others, and a reply has 16 MB.
#[derive(Clone, Debug)]
pub struct FindHolders {
    /// The grants.
    pub grants: Vec<GrantKey>,
}

/// A lease document with the wanted holders.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedSnapshot {
    /// The lease itself.
    pub lease: LeaseSnapshot,
    /// The wanted holders, if the lease is held by several. Others describe earlier holders.
    pub holders: Vec<SeenHolder>,
}

/// One holder, as far as it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenHolder {
    /// The holder's value.
    pub value: Option<String>,
    /// The id of its grant.
    pub id: Option<GrantId>,
    /// The echo of its newest command.
    pub sent: Option<i64>,
    /// When the server made the grant.
    pub acquired_at: Option<chrono::DateTime<chrono::Utc>>,
}

impl Command for FindHolders {
    type Reply = Vec<SharedSnapshot>;
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let names = self.grants.iter().map(GrantKey::name);
        let ids = self.grants.iter().map(GrantKey::grant_id).collect();
        let projection = snapshot::projection_without_queue();
        find_holders(collection, names, (holder::ID, ids), projection)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<SharedSnapshot>, DecodeError> {
        Ok(documents(reply)?.map(read_with_own_holders).collect())
    }
}

/// The read of these leases by this projection, with the holders whose field has one of these values.
pub(super) fn find_holders<'a>(
    collection: &str,
    names: impl Iterator<Item = &'a str>,
    (field, values): (&str, BTreeSet<&str>),
    projection: Document,
) -> Document {
    // The server makes a set of a constant list, and would search through that of `$in`.
    let values: Vec<&str> = values.into_iter().collect();
    let own = filter(admission::elements(), |each| {
        doc! { "$setIsSubset": [[each.field(field)], literal(values)] }
    });
    let fields = [holder::VALUE, holder::ID, holder::SENT_MICROS, holder::ACQUIRED_AT];
    let own = map(own, |each| each.fields(fields));
    let projection = with(projection, format::HOLDERS, own);
    let names: BTreeSet<&str> = names.collect();
    // Zero would be no limit.
    let (limit, names) = (names.len().max(1), Bson::from_iter(names));
    find(collection, doc! { format::NAME: { "$in": names } }, projection, limit)
}

pub(super) fn read_with_own_holders(document: &Document) -> SharedSnapshot {
    let lease = snapshot::read(document);
    let is_shared = lease.info.value.as_deref() == Some(format::SHARED_VALUE);
    let elements = document.get_array(format::HOLDERS).ok().filter(|_| is_shared);
    let holders = elements.into_iter().flatten().filter_map(Bson::as_document);
    let seen = |element: &Document| SeenHolder {
        value: text(element, holder::VALUE),
        id: element.get_str(holder::ID).ok().map(GrantId::from),
        sent: element.get_i64(holder::SENT_MICROS).ok(),
        acquired_at: snapshot::date(element, holder::ACQUIRED_AT),
    };
    SharedSnapshot { lease, holders: holders.map(seen).collect() }
}

/// A read of majority-committed data alone, in one batch.
pub(super) fn find(
    collection: &str,
    filter: Document,
    projection: Document,
    limit: impl TryInto<i64>,
) -> Document {
    let limit = limit.try_into().unwrap_or(i64::MAX);
    doc! {
        "find": collection,
        "filter": filter,
        "projection": projection,
        "limit": limit,
        "batchSize": limit,
        "singleBatch": true,
        "collation": simple_collation(),
        "readConcern": majority_read(),
    }
}

/// The documents of a reply's only batch.
pub(super) fn documents(reply: &Document) -> Result<impl Iterator<Item = &Document>, DecodeError> {
    let cursor = reply.get_document("cursor");
    let batch = cursor
        .and_then(|cursor| cursor.get_array("firstBatch"))
        .map_err(|_| malformed("the reply to a read contains no batch"))?;
    Ok(batch.iter().filter_map(Bson::as_document))
}
