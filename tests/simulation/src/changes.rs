//! The store's journal, as the checker reads changes.

use std::sync::Arc;

use mongo_lease_checker::changes::{Change, Grant, State, Waiting};
use mongo_lease_checker::maps::Map;
use mongo_lease_checker::permits::Permits;
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::spec::Expiry;
use mongo_lease_core::texts::{Details, LeaseDocument, Promoted};
use mongo_lease_memory::Write;

/// The changes that the writes made.
///
/// The document before a write is mostly the very one that the last write left, and its state is then that one's.
pub(crate) fn changes_of(writes: Vec<Write>) -> Vec<Change> {
    let mut last: Map<String, (Arc<LeaseDocument>, Arc<State>)> = Map::default();
    let change = |write: Write| {
        let known = last.remove(&write.name);
        let before = write.before.as_ref().map(|document| match known {
            Some((left, state)) if Arc::ptr_eq(&left, document) && !is_plain(&state) => state,
            Some(_) | None => Arc::new(state(document, 0)),
        });
        let after = write.after.as_ref().map(|document| Arc::new(state(document, write.now_ms)));
        if let (Some(document), Some(state)) = (write.after, &after) {
            last.insert(write.name.clone(), (document, Arc::clone(state)));
        }
        let token = u64::from(write.at.time) << 32 | u64::from(write.at.increment);
        Change { token, wall: write.now_ms, name: write.name, before, after }
    };
    writes.into_iter().map(change).collect()
}

/// The beginning of the id that stands for the grant of a holder of the plain recipe.
const PLAIN: &str = "plain ";

/// Whether the state is not the document's alone: its holder counts as granted at the write.
fn is_plain(state: &State) -> bool {
    state.grants.iter().any(|grant| grant.id.starts_with(PLAIN))
}

/// The document. A holder of the plain recipe has no grant: it counts as granted `now_ms`.
fn state(document: &LeaseDocument, now_ms: i64) -> State {
    let expires_at = match document.expiry {
        Expiry::At(at) => at,
        Expiry::Absent | Expiry::Damaged => 0,
    };
    State {
        expires_at,
        grants: grants(document, expires_at, now_ms),
        promoted: match &document.promoted {
            Some(Promoted::Entry { id, sent }) => format!("{id}@{sent}", id = id.as_str()),
            Some(Promoted::Recheck { .. }) | None => String::new(),
        },
        admitted: admitted(document),
        queue: document.queue.entries().map(waiting).collect(),
    }
}

fn admitted(document: &LeaseDocument) -> String {
    let each =
        document.admitted.iter().map(|it| format!("{}@{}@{}", it.id.as_str(), it.sent, it.until));
    each.collect::<Vec<_>>().join(" ")
}

fn grants(document: &LeaseDocument, expires_at: i64, now_ms: i64) -> Vec<Grant> {
    let value = document.value.clone().unwrap_or_default();
    if document.is_in_shared_use() {
        let each = document.sharers().into_iter().map(|holder| Grant {
            value: holder.grant.value,
            id: holder.grant.id.as_str().to_owned(),
            call: call(&holder.grant.details),
            acquired_at: holder.grant.acquired_at,
            expires_at: holder.expires_at,
            permits: permits(holder.permits, holder.limit),
        });
        return each.collect();
    }
    if value.is_empty() || LeaseInfo::is_tombstone_value(&value) {
        return Vec::new();
    }
    let own = document.holders_grant();
    vec![Grant {
        id: own.map_or_else(|| format!("{PLAIN}{expires_at}"), |it| it.id.as_str().to_owned()),
        call: own.map(|grant| call(&grant.details)).unwrap_or_default(),
        acquired_at: own.map_or(now_ms, |grant| grant.acquired_at),
        expires_at,
        permits: Permits::EXCLUSIVE,
        value,
    }]
}

fn waiting(entry: &mongo_lease_core::spec::Entry<mongo_lease_core::texts::Texts>) -> Waiting {
    Waiting {
        value: entry.value.clone(),
        call: call(&entry.details),
        expires_at: entry.expires_at,
        permits: permits(entry.permits, entry.limit),
    }
}

fn call(details: &Details) -> String {
    details.metadata.get_str("call").unwrap_or_default().to_owned()
}

fn permits(count: i64, limit: i64) -> Permits {
    let number = |number| u32::try_from(number).unwrap_or(0);
    Permits { count: number(count), limit: number(limit) }
}
