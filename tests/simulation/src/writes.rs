//! Promises about single writes: nobody writes to a document whose expiry is of a foreign type, a release leaves no
//! first waiter that fits and tells it of an earlier end, and nothing shortens the life of an entry.

use mongo_lease_checker::changes::{Change, Waiting};
use mongo_lease_checker::maps::Map;
use mongo_lease_core::spec::{Entry, Expiry, Holder, Promoted};
use mongo_lease_core::texts::{LeaseDocument, Texts};
use mongo_lease_memory::Write;

use crate::neighbours::MENDED;
use crate::promises::Broken;
use crate::round::History;

/// A write that breaks a promise.
#[derive(Clone, Debug)]
pub struct BrokenWrite {
    promise: &'static str,
    wall: i64,
    lease: String,
    text: String,
}

/// The promise that this write breaks, if it breaks one.
pub(crate) fn broken_by(write: &Write) -> Option<BrokenWrite> {
    let (before, after) = (write.before.as_ref()?, write.after.as_deref());
    let broken = |promise, text: &str| {
        let (wall, lease) = (write.now_ms, write.name.clone());
        Some(BrokenWrite { promise, wall, lease, text: text.to_owned() })
    };
    if before.expiry == Expiry::Damaged {
        let is_repair = after.is_some_and(|it| it.expiry == MENDED);
        return if is_repair {
            None
        } else {
            broken("Spared", "the expiry of the document is none")
        };
    }
    let after = after?;
    // The first waiter that lives by the command's date may have expired while the command waited for a lock.
    let now = write.dated_ms;
    if !has_made_room(before, after, now) {
        return None;
    }
    let sharers = after.sharers();
    let first = after.queue.entries().find(|entry| {
        let holds = |holder: &Holder<Texts>| holder.grant.value == entry.value;
        let is_holder = after.value.as_ref() == Some(&entry.value);
        entry.expires_at > now && !is_holder && !sharers.iter().any(holds)
    })?;
    // A damaged ttl may end a grant before it begins.
    let is_granted = after.value.is_some() && after.value != before.value;
    let is_held = is_granted || after.expiry > Expiry::At(now);
    let is_blocked = sharers.is_empty() && is_held;
    if !is_blocked && fits(first, &sharers) {
        return broken("Admission", "its first waiter fits, and was not admitted");
    }
    let ends_earlier = !sharers.is_empty() && after.expiry < before.expiry;
    let is_told = matches!(after.promoted, Some(Promoted::Recheck { .. }));
    if ends_earlier && after.admitted.is_empty() && !is_told {
        return broken("Told", "its first waiter was not told of the earlier end");
    }
    None
}

/// Whether a live holder or a live waiter is gone that was not granted the lease.
fn has_made_room(before: &LeaseDocument, after: &LeaseDocument, now: i64) -> bool {
    if !before.is_in_shared_use() && !after.is_in_shared_use() {
        return false;
    }
    let (held, left) = (before.sharers(), after.sharers());
    let is_in =
        |list: &[Holder<Texts>], value: &String| list.iter().any(|it| it.grant.value == *value);
    let is_gone =
        |holder: &Holder<Texts>| holder.expires_at > now && !is_in(&left, &holder.grant.value);
    let has_left = |entry: &Entry<Texts>| {
        let holds = after.value.as_ref() == Some(&entry.value)
            || is_in(&left, &entry.value)
            || is_in(&held, &entry.value)
            || before.value.as_ref() == Some(&entry.value);
        entry.expires_at > now && !holds && after.queue.position(&entry.value).is_none()
    };
    let is_shared = after.is_in_shared_use() || !held.is_empty();
    is_shared && (held.iter().any(is_gone) || before.queue.entries().any(has_left))
}

fn fits(entry: &Entry<Texts>, holders: &[Holder<Texts>]) -> bool {
    let in_use: i64 = holders.iter().map(|holder| holder.permits).sum();
    let limit = holders.iter().map(|holder| holder.limit).fold(entry.limit, i64::min);
    in_use + entry.permits <= limit
}

/// The promises of this file that were broken.
pub(crate) fn broken(history: &History) -> Vec<Broken> {
    let writes = history.broken_writes.iter().map(|write| Broken {
        promise: write.promise.to_owned(),
        at: history.evidence.moment(write.wall),
        lease: Some(write.lease.clone()),
        calls: Vec::new(),
        text: format!("{}: {}", write.lease, write.text),
    });
    writes.chain(shortened(history)).collect()
}

/// The entries whose life a write has shortened.
fn shortened(history: &History) -> Vec<Broken> {
    let mut found = Vec::new();
    let mut last: Map<&str, &Change> = Map::default();
    for change in &history.evidence.changes {
        let before = last.insert(&change.name, change).and_then(|change| change.after.as_ref());
        let (Some(before), Some(after)) = (before, &change.after) else { continue };
        for entry in &before.queue {
            let shorter =
                |it: &&Waiting| it.value == entry.value && it.expires_at < entry.expires_at;
            if let Some(now) = after.queue.iter().find(shorter) {
                let by = entry.expires_at - now.expires_at;
                found.push(Broken {
                    promise: "Life".to_owned(),
                    at: history.evidence.moment(change.wall),
                    lease: Some(change.name.clone()),
                    calls: vec![entry.call.clone()],
                    text: format!("the entry of {} for {}: by {by} ms", entry.call, change.name),
                });
            }
        }
    }
    found
}
