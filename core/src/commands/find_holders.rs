//! Find: the holders of leases in shared use.

use std::collections::BTreeSet;

use crate::bson::{Bson, Document, doc};
use crate::format::{self, holder};
use crate::rules::ids::GrantId;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;

use super::admission::elements;
use super::variables::{filter, map};
use crate::commands::DecodeError;
use crate::commands::renew::GrantKey;
use crate::commands::snapshot::{self, LeaseSnapshot};
use crate::commands::{Command, find, majority_read, simple_collation};

/// Reads the leases of these grants, with these holders alone.
///
/// A lease may have very many others, and a reply has 16 MB.
#[derive(Clone, Debug)]
pub struct FindHolders {
    /// The grants.
    pub grants: Vec<GrantKey>,
}

/// A lease document with its holders.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedSnapshot {
    /// The lease itself.
    pub lease: LeaseSnapshot,
    /// The wanted holders, if the lease is in shared use. Others describe earlier holders.
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
}

impl Command for FindHolders {
    type Reply = Vec<SharedSnapshot>;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let mut projection = snapshot::projection_without_queue();
        projection.insert(format::HOLDERS, self.own_holders());
        let names: BTreeSet<&str> = self.grants.iter().map(GrantKey::name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let limit = i64::try_from(names.len()).unwrap_or(i64::MAX);
        doc! {
            "find": collection,
            "filter": { format::NAME: { "$in": names } },
            "projection": projection,
            "limit": limit,
            "batchSize": limit,
            "singleBatch": true,
            "collation": simple_collation(),
            "readConcern": majority_read(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<SharedSnapshot>, DecodeError> {
        Ok(find::documents(reply)?.map(read).collect())
    }
}

impl FindHolders {
    /// The part of each of these holders that is read.
    fn own_holders(&self) -> Document {
        let ids: Vec<&str> = self.grants.iter().map(GrantKey::grant_id).collect();
        let own = filter(elements(), |each| {
            // The server makes a set of a constant list, and would search through that of `$in`.
            doc! { "$setIsSubset": [[each.field(holder::ID)], { "$literal": ids }] }
        });
        map(own, |each| {
            let part = |field: &str| (field.to_owned(), Bson::from(each.field(field)));
            [holder::VALUE, holder::ID, holder::SENT_MICROS]
                .into_iter()
                .map(part)
                .collect::<Document>()
        })
    }
}

fn read(document: &Document) -> SharedSnapshot {
    let lease = snapshot::read(document);
    let is_shared = lease.info.value.as_deref() == Some(format::SHARED_VALUE);
    let elements = document.get_array(format::HOLDERS).ok().filter(|_| is_shared);
    let holders = elements.into_iter().flatten().filter_map(Bson::as_document);
    let seen = |element: &Document| SeenHolder {
        value: element.get_str(holder::VALUE).ok().map(str::to_owned),
        id: element.get_str(holder::ID).ok().map(GrantId::from),
        sent: element.get_i64(holder::SENT_MICROS).ok(),
    };
    SharedSnapshot { lease, holders: holders.map(seen).collect() }
}
