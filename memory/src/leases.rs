//! The documents of a store in memory, and what the server adds to every write: its date, its place in the oplog, and
//! the event of a promotion.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mongo_lease_core::bson::Timestamp;
use mongo_lease_core::spec::{self, AsBuilt, EndScope, Expiry, GrantMatch, HolderElement};
use mongo_lease_core::texts::{Admission, LeaseDocument, Promoted};

use crate::journal::{Journal, Write};
use crate::late::{Collections, Late, has_news, without_news};
use crate::mistake::{seen, written};

/// How often the TTL monitor deletes the expired documents.
const TTL_MONITOR_EVERY_MS: i64 = 60_000;
/// How many events are kept for streams that begin in the past.
const EVENTS_MAX: usize = 65_536;

/// Everything that a store holds.
#[derive(Debug)]
pub struct Leases {
    pub(crate) collections: Collections,
    /// The time of the last write.
    pub(crate) last_write: Timestamp,
    /// When the TTL monitor last ran.
    monitored_at_ms: i64,
    pub(crate) events: VecDeque<PromotionEvent>,
    /// The number of the first of these events.
    first_event: u64,
    journal: Journal,
    /// The state that a majority has, while it has no newer writes.
    majority: Option<Majority>,
    /// The majority, if it is late by a fixed time.
    pub(crate) late: Option<Late>,
}

/// The state that a majority has.
#[derive(Debug)]
struct Majority {
    collections: Collections,
    /// The number of the first event of which no stream may tell.
    events_end: u64,
    /// The number of writes in the journal.
    writes: usize,
}

/// The event of one write, as a change stream tells it.
#[derive(Clone, Debug)]
pub struct PromotionEvent {
    /// The collection of the document.
    pub collection: String,
    /// The news.
    pub told: News,
    /// The time of the write.
    pub token: Timestamp,
    /// The expiry after the write.
    pub expires_at_ms: Option<i64>,
}

/// The news for waiters.
#[derive(Clone, Debug)]
pub enum News {
    /// One waiter has the whole lease, or should send an attempt.
    Promoted(Promoted),
    /// These were admitted beside each other.
    Admitted(Vec<Admission>),
}

impl Leases {
    /// No leases, at this date of the server's clock.
    pub fn new(now_ms: i64) -> Leases {
        Leases {
            collections: Collections::new(),
            last_write: token_at(now_ms),
            monitored_at_ms: now_ms,
            events: VecDeque::new(),
            first_event: 0,
            journal: Journal::default(),
            majority: None,
            late: None,
        }
    }

    /// The collection, for one command that arrives at this date.
    pub fn collection(&mut self, name: &str, now_ms: i64) -> Collection<'_> {
        if now_ms.saturating_sub(self.monitored_at_ms) >= TTL_MONITOR_EVERY_MS {
            self.monitored_at_ms = now_ms;
            self.delete_expired(now_ms);
        }
        self.catch_up(now_ms);
        Collection { leases: self, name: name.to_owned(), now_ms, is_majority: false }
    }

    /// Deletes the documents that have expired, as the TTL monitor does.
    pub fn delete_expired(&mut self, now_ms: i64) {
        let is_over = |it: &Arc<LeaseDocument>| {
            // Most do not expire soon, and need no copy for this question.
            matches!(it.expiry, Expiry::At(at) if at <= now_ms)
                && spec::ttl_delete(Some(LeaseDocument::clone(it)), now_ms).is_none()
        };
        let mut collections = std::mem::take(&mut self.collections);
        for (collection, documents) in &mut collections {
            let over = documents.iter().filter(|(_, it)| is_over(it));
            let over: Vec<String> = over.map(|(name, _)| name.clone()).collect();
            for name in over {
                let (before, at) = (documents.remove(&name), self.write(now_ms));
                if let Some(late) = &mut self.late {
                    late.note(at, (collection, &name), None, now_ms);
                }
                let collection = collection.clone();
                self.journal.note(|| Write {
                    collection,
                    name,
                    before,
                    after: None,
                    at,
                    now_ms,
                    dated_ms: now_ms,
                });
            }
        }
        self.collections = collections;
    }

    /// Keeps the writes from now on, until they are taken.
    pub fn keep_journal(&mut self) {
        self.journal.keep();
    }

    /// The writes since the last call.
    pub fn take_journal(&mut self) -> Vec<Write> {
        self.journal.take()
    }

    /// How many writes are kept.
    pub fn writes_kept(&self) -> usize {
        self.journal.len()
    }

    /// Gives the kept writes from this one on the date at which they were made.
    pub fn date_writes(&mut self, from: usize, now_ms: i64) {
        self.journal.date(from, now_ms);
    }

    /// From now on no majority has the writes, and no change stream tells of them.
    pub fn hold_back(&mut self) {
        let (collections, events_end) = (self.collections.clone(), self.next_event());
        self.majority = Some(Majority { collections, events_end, writes: self.journal.len() });
    }

    /// From now on a majority has all writes.
    pub fn confirm_all(&mut self) {
        self.majority = None;
    }

    /// Undoes the writes that no majority has. The time of a later write is later than theirs.
    pub fn roll_back(&mut self) {
        let Some(Majority { collections, events_end, writes }) = self.majority.take() else {
            return;
        };
        self.collections = collections;
        self.journal.truncate(writes);
        while self.next_event() > events_end && self.events.pop_back().is_some() {}
    }

    /// How many leases are held, kept, or waited for at this date.
    pub fn in_use(&self, now_ms: i64) -> usize {
        let documents = self.collections.values().flat_map(BTreeMap::values);
        let is_in_use = |document: &&Arc<LeaseDocument>| {
            matches!(document.expiry, Expiry::At(at) if at > now_ms)
                || document.queue.entries().any(|entry| entry.expires_at > now_ms)
        };
        documents.filter(is_in_use).count()
    }

    /// The names of the collections in which there is a document of this name.
    pub fn collections_with(&self, name: &str) -> Vec<String> {
        let with = self.collections.iter().filter(|(_, documents)| documents.contains_key(name));
        with.map(|(collection, _)| collection.clone()).collect()
    }

    /// The number of the first event at or after this time; without a time, of the next one.
    pub fn first_event_since(&self, since: Option<Timestamp>) -> u64 {
        let earlier = match since {
            Some(since) => self.events.partition_point(|event| event.token < since),
            None => self.events.len(),
        };
        self.told_end().min(self.first_event + earlier as u64)
    }

    /// The number of the first event of which no stream may tell.
    pub(crate) fn told_end(&self) -> u64 {
        let end = self.majority.as_ref().map_or(u64::MAX, |majority| majority.events_end);
        let Some(late) = &self.late else { return end };
        let told = self.events.partition_point(|event| late.has(event.token));
        end.min(self.first_event + told as u64)
    }

    /// The event with this number, or the oldest that is left.
    pub fn event(&self, number: u64) -> Option<(u64, &PromotionEvent)> {
        let number = number.max(self.first_event);
        if number >= self.told_end() {
            return None;
        }
        let place = usize::try_from(number - self.first_event).ok()?;
        Some((number, self.events.get(place)?))
    }

    /// The number of the next event.
    pub fn next_event(&self) -> u64 {
        self.first_event + self.events.len() as u64
    }

    fn write(&mut self, now_ms: i64) -> Timestamp {
        let Timestamp { time, increment } = self.last_write;
        self.last_write = token_at(now_ms).max(Timestamp { time, increment: increment + 1 });
        self.last_write
    }

    fn tell(&mut self, event: PromotionEvent) {
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
            self.first_event += 1;
        }
    }
}

/// The time of the first write within this second.
fn token_at(now_ms: i64) -> Timestamp {
    let time = u32::try_from(now_ms.div_euclid(1_000)).unwrap_or(u32::MAX);
    Timestamp { time, increment: 1 }
}

/// One collection during one command.
#[derive(Debug)]
pub struct Collection<'a> {
    leases: &'a mut Leases,
    name: String,
    now_ms: i64,
    /// Whether reads show what a late majority has.
    is_majority: bool,
}

impl Collection<'_> {
    /// From now on reads show what a majority has.
    pub fn read_majority(&mut self) {
        self.is_majority = true;
    }

    fn documents(&self) -> Option<&BTreeMap<String, Arc<LeaseDocument>>> {
        let collections = match &self.leases.late {
            Some(late) if self.is_majority => &late.collections,
            Some(_) | None => &self.leases.collections,
        };
        collections.get(&self.name)
    }

    /// The server's clock when the command arrived.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The time of the last write, which the reply to a command carries.
    pub fn operation_time(&self) -> Timestamp {
        self.leases.last_write
    }

    /// A majority has all writes up to this time.
    pub fn majority_time(&self) -> Timestamp {
        self.leases.late.as_ref().and_then(Late::reached).unwrap_or(self.leases.last_write)
    }

    /// The document of this name.
    pub fn get(&self, name: &str) -> Option<&LeaseDocument> {
        self.shared(name).map(Arc::as_ref)
    }

    fn shared(&self, name: &str) -> Option<&Arc<LeaseDocument>> {
        self.documents()?.get(name)
    }

    /// The documents in the order of their names, from after this name on.
    pub fn after(&self, name: Option<&str>) -> impl Iterator<Item = (&str, &LeaseDocument)> {
        use std::ops::Bound;
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let documents = self.documents().into_iter();
        documents
            .flat_map(move |documents| documents.range::<str, _>((from, Bound::Unbounded)))
            .map(|(name, document)| (name.as_str(), document.as_ref()))
    }

    /// Applies the effect of a command to the document of this name. A write that changes nothing has no time of its
    /// own, as on a server.
    pub fn apply<A>(
        &mut self,
        name: &str,
        effect: impl FnOnce(Option<LeaseDocument>, i64) -> (Option<LeaseDocument>, A),
    ) -> A {
        let before = self.shared(name).cloned();
        let found = before.as_deref().cloned();
        let (after, answer) = effect(seen(found, self.now_ms), self.now_ms);
        let after = written(before.as_deref(), after, self.now_ms);
        if before.as_deref() == after.as_ref() {
            return answer;
        }
        let (token, after) = (self.leases.write(self.now_ms), after.map(Arc::new));
        self.leases.journal.note(|| Write {
            collection: self.name.clone(),
            name: name.to_owned(),
            before,
            after: after.clone(),
            at: token,
            now_ms: self.now_ms,
            dated_ms: self.now_ms,
        });
        if let Some(late) = &mut self.leases.late {
            late.note(token, (&self.name, name), after.clone().map(without_news), self.now_ms);
        }
        let documents = self.leases.collections.entry(self.name.clone()).or_default();
        let Some(mut after) = after else {
            documents.remove(name);
            return answer;
        };
        let (mut promoted, mut admitted) = (None, None);
        if has_news(&after) {
            let after = Arc::make_mut(&mut after);
            promoted = after.promoted.take().map(News::Promoted);
            admitted = Some(std::mem::take(&mut after.admitted)).filter(|all| !all.is_empty());
        }
        let expires_at_ms = match after.expiry {
            Expiry::At(at) => Some(at),
            Expiry::Absent | Expiry::Damaged => None,
        };
        documents.insert(name.to_owned(), after);
        for told in promoted.into_iter().chain(admitted.map(News::Admitted)) {
            let collection = self.name.clone();
            self.leases.tell(PromotionEvent { collection, told, token, expires_at_ms });
        }
        answer
    }

    /// Ends the lease in place of its holder. Says whether it was held.
    pub fn release(&mut self, name: &str) -> bool {
        let values: Vec<String> = match self.held(name) {
            Some(document) if document.is_in_shared_use() => {
                document.sharers().into_iter().map(|holder| holder.grant.value).collect()
            }
            found => found.and_then(|document| document.value.clone()).into_iter().collect(),
        };
        let mut is_ended = false;
        for value in values {
            is_ended |= self.apply(name, |found, now| {
                match spec::delete(found, &value, &GrantMatch::Any, &AsBuilt) {
                    (found, false) => {
                        let scope = EndScope::Anywhere;
                        spec::end(found, &value, &GrantMatch::Any, scope, now, &AsBuilt)
                    }
                    deleted => deleted,
                }
            });
        }
        is_ended
    }

    /// Ends the time of the lease on the server, and calls the first waiter. Says whether it was held.
    ///
    /// On a server nothing tells the waiter: each has a time for its next attempt, and a test need not wait for it.
    pub fn expire(&mut self, name: &str) -> bool {
        let Some(mut document) = self.held(name).cloned() else { return false };
        self.apply(name, |_, now| {
            let first = document.queue.entries().find(|entry| entry.expires_at > now);
            document.promoted = first.map(|entry| Promoted::Recheck { id: entry.id.clone() });
            document.expiry = Expiry::At(now);
            for element in document.holders.elements_mut() {
                if let HolderElement::Holder(holder) = element {
                    holder.expires_at = now;
                }
            }
            (Some(document), true)
        })
    }

    /// The document of this name, if the lease is held.
    fn held(&self, name: &str) -> Option<&LeaseDocument> {
        let document = self.get(name)?;
        let is_held = matches!(document.expiry, Expiry::At(at) if at > self.now_ms);
        (is_held && document.value.is_some()).then_some(document)
    }
}
