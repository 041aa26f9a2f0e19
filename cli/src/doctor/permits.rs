//! Whether the holders of leases held by several agree on the limit.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::TryStreamExt;
use mongo_lease::{Error, LeaseInfo};
use serde_json::{Value, json};

use super::Patient;
use super::finding::Finding;
use crate::connect;
use crate::failure::Failure;

const CHECK: &str = "permits";
/// How many leases are read. A collection may have millions.
const READ_MAX: usize = 10_000;
/// How many names a message has. The details have all.
const NAMED_MAX: usize = 10;

/// The leases held by several.
#[derive(Default)]
struct Shared {
    count: usize,
    /// The names of those whose holders have different limits, with these limits.
    differing: Vec<(String, BTreeSet<u32>)>,
    /// The names of those whose list of holders is corrupt.
    damaged: Vec<String>,
    /// Whether the collection has more leases than were read.
    is_cut: bool,
}

/// Reads the held leases, and names those whose holders have different limits.
pub(super) async fn permits(patient: &Patient<'_>) -> Finding {
    match read(patient).await {
        Ok(shared) => shared.finding(),
        Err(error) => Finding::unseen(CHECK, &Failure::of(&error, patient.options).message),
    }
}

async fn read(patient: &Patient<'_>) -> Result<Shared, Error> {
    let builder = connect::builder(&patient.connected.database, patient.options);
    // Another check covers the indexes.
    let leases = builder.read_only(true).assume_indexes(true).build().await?;
    let mut found = pin!(leases.list().stream()?);
    let mut shared = Shared::default();
    let mut read = 0;
    while let Some(info) = found.try_next().await? {
        if read == READ_MAX {
            shared.is_cut = true;
            break;
        }
        read += 1;
        shared.add(&info);
    }
    Ok(shared)
}

impl Shared {
    fn add(&mut self, info: &LeaseInfo) {
        if !info.shared {
            return;
        }
        self.count += 1;
        let limits: BTreeSet<u32> = info.holders.iter().map(|holder| holder.limit).collect();
        match limits.len() {
            0 => self.damaged.push(info.name.clone()),
            1 => {}
            _ => self.differing.push((info.name.clone(), limits)),
        }
    }

    fn finding(&self) -> Finding {
        let mut parts = Vec::new();
        if !self.differing.is_empty() {
            let each = self.differing.iter().map(|(name, limits)| {
                let limits: Vec<String> = limits.iter().map(u32::to_string).collect();
                format!("{name:?} ({})", limits.join(", "))
            });
            parts.push(format!("the limits of holders differ: {}", named(each)));
        }
        if !self.damaged.is_empty() {
            let each = self.damaged.iter().map(|name| format!("{name:?}"));
            parts.push(format!("the list of holders is damaged: {}", named(each)));
        }
        let mut advice = Vec::new();
        if !self.differing.is_empty() {
            advice.push(
                "the smallest limit binds all, as it should while a deployment changes it; \
                 otherwise the callers disagree",
            );
        }
        if !self.damaged.is_empty() {
            advice.push("nobody is admitted beside a damaged list until the lease expires");
        }
        let mut message = match (parts.is_empty(), self.count) {
            (false, _) => parts.join("; "),
            (true, 0) => "no lease is held by several".to_owned(),
            (true, count) => format!("leases held by several: {count}; their holders agree"),
        };
        if self.is_cut {
            message += &format!(" (of the first {READ_MAX} leases)");
        }
        let finding = match parts.is_empty() {
            true => Finding::ok(CHECK, message),
            false => Finding::note(CHECK, message, advice.join("; ")),
        };
        finding.with(self.details())
    }

    fn details(&self) -> Value {
        let differing = self.differing.iter();
        let differing: Vec<Value> =
            differing.map(|(name, limits)| json!({ "name": name, "limits": limits })).collect();
        json!({ "shared": self.count, "differing": differing, "damaged": self.damaged })
    }
}

/// The first of these names.
fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let mut first: Vec<String> = names.take(NAMED_MAX).collect();
    if more > 0 {
        first.push(format!("{more} more"));
    }
    first.join(", ")
}
