//! A majority that is late by a fixed time: each write reaches it so long after the primary.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mongo_lease_core::bson::Timestamp;
use mongo_lease_core::texts::LeaseDocument;

/// The documents of a store, by collection, and then by name.
pub(crate) type Collections = BTreeMap<String, BTreeMap<String, Arc<LeaseDocument>>>;

/// A late majority: the documents that it has, and the writes that it lacks.
#[derive(Debug)]
pub(crate) struct Late {
    delay_ms: i64,
    /// Those that it has.
    pub(crate) collections: Collections,
    /// The time of its newest write.
    newest: Timestamp,
    /// The writes that it lacks, in their order.
    writes: VecDeque<LateWrite>,
}

#[derive(Debug)]
pub(crate) struct LateWrite {
    pub(crate) at: Timestamp,
    pub(crate) collection: String,
    pub(crate) name: String,
    pub(crate) after: Option<Arc<LeaseDocument>>,
    /// When the majority has it, by the date of the store.
    due_ms: i64,
}

impl Late {
    /// A majority that has all up to now.
    pub(crate) fn new(collections: Collections, newest: Timestamp, delay_ms: i64) -> Late {
        Late { delay_ms, collections, newest, writes: VecDeque::new() }
    }

    /// From now on writes are late by so much.
    pub(crate) fn set_delay(&mut self, delay_ms: i64) {
        self.delay_ms = delay_ms;
    }

    /// The primary has written.
    pub(crate) fn note(
        &mut self,
        at: Timestamp,
        (collection, name): (&str, &str),
        after: Option<Arc<LeaseDocument>>,
        now_ms: i64,
    ) {
        // In their order: a later write is not there before an earlier one.
        let earliest = self.writes.back().map_or(now_ms, |last| last.due_ms);
        let due_ms = (now_ms + self.delay_ms).max(earliest);
        let (collection, name) = (collection.to_owned(), name.to_owned());
        self.writes.push_back(LateWrite { at, collection, name, after, due_ms });
    }

    /// Lets the majority have the writes that are due.
    pub(crate) fn catch_up(&mut self, now_ms: i64) {
        while self.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms)
            && let Some(write) = self.writes.pop_front()
        {
            let documents = self.collections.entry(write.collection).or_default();
            match write.after {
                Some(after) => drop(documents.insert(write.name, after)),
                None => drop(documents.remove(&write.name)),
            }
            self.newest = write.at;
        }
    }

    /// Whether the majority has the write of this time, and all before it.
    pub(crate) fn has(&self, at: Timestamp) -> bool {
        at <= self.newest || self.writes.is_empty()
    }

    /// The time of the newest write that the majority has; `None` if it has all.
    pub(crate) fn reached(&self) -> Option<Timestamp> {
        (!self.writes.is_empty()).then_some(self.newest)
    }

    /// When the majority has all writes up to this time; `None` if it has them.
    pub(crate) fn due_ms(&self, at: Timestamp) -> Option<i64> {
        if self.has(at) {
            return None;
        }
        let reached = self.writes.iter().take_while(|write| write.at <= at).last();
        // A time between two writes: what is before it is there.
        reached.map(|write| write.due_ms)
    }

    /// Forgets the writes that the majority lacks, and returns what it has.
    pub(crate) fn forget_writes(&mut self) -> Collections {
        self.writes.clear();
        self.collections.clone()
    }

    /// When the majority has the next write that it lacks.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.writes.front().map(|write| write.due_ms)
    }
}

/// Whether a write announces something.
pub(crate) fn has_news(document: &LeaseDocument) -> bool {
    document.promoted.is_some() || !document.admitted.is_empty()
}

/// The document as it is kept: a server's text for a recheck is new each time, and no effect reads it.
pub(crate) fn without_news(mut document: Arc<LeaseDocument>) -> Arc<LeaseDocument> {
    if has_news(&document) {
        let kept = Arc::make_mut(&mut document);
        kept.promoted = None;
        kept.admitted.clear();
    }
    document
}
