//! Find: the holders of leases in shared use.

use std::collections::BTreeSet;

use mongo_lease_core::format::{self, holder};
use mongo_lease_core::rules::ids::GrantId;
use mongo_lease_core::rules::slots::Lane;
use mongo_lease_core::rules::time::Instant;
use mongodb::bson::{Bson, Document, doc};

use super::{elements, of_each};
use crate::commands::failure::Cause;
use crate::commands::renew::GrantKey;
use crate::commands::snapshot::{self, LeaseSnapshot};
use crate::commands::{Command, find, majority_read, queue, simple_collation};

/// Reads the leases of these grants, with these holders alone.
///
/// A lease may have very many others, and a reply has 16 MB.
#[derive(Clone, Debug)]
pub(crate) struct FindHolders {
    pub(crate) grants: Vec<GrantKey>,
}

/// A lease document with its holders.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedSnapshot {
    pub(crate) lease: LeaseSnapshot,
    /// The wanted holders, if the lease is in shared use. Others describe earlier holders.
    pub(crate) holders: Vec<SeenHolder>,
}

/// One holder, as far as it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenHolder {
    pub(crate) value: Option<String>,
    pub(crate) id: Option<GrantId>,
    /// The echo of its newest command.
    pub(crate) sent: Option<i64>,
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

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<SharedSnapshot>, Cause> {
        Ok(find::documents(reply)?.map(read).collect())
    }
}

impl FindHolders {
    /// The part of each of these holders that is read.
    fn own_holders(&self) -> Document {
        let ids: Vec<&str> = self.grants.iter().map(GrantKey::grant_id).collect();
        // The server makes a set of a constant list, and would search through that of `$in`.
        let is_own = doc! { "$setIsSubset": [[of_each(holder::ID)], { "$literal": ids }] };
        let fields = [holder::VALUE, holder::ID, holder::SENT_MICROS];
        let part: Document =
            fields.into_iter().map(|field| (field.to_owned(), of_each(field).into())).collect();
        let own = queue::filter(elements(), is_own);
        doc! { "$map": { "input": own, "as": "entry", "in": part } }
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
