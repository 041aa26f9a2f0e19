//! The queue in the document: the entries that count, their order, and the writes that change it.

use super::{AcquireRequest, Build, Document, Expiry, GrantId, Value, Write};

/// `queue`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Queue {
    Absent,
    /// A value that is no list.
    Damaged,
    List(Vec<Element>),
}

/// An element of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Element {
    Entry(Entry),
    /// An element that is not an entry of ours, though it may show a value.
    Damaged(Option<Value>),
}

/// A waiter's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) id: GrantId,
    pub(crate) sent: i64,
    pub(crate) heartbeat_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) ttl: i64,
    pub(crate) max_clock_skew: i64,
}

/// How a call waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueOptions {
    pub(crate) life: i64,
    pub(crate) queue_max: usize,
}

/// `promoted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Promoted {
    /// This entry was promoted. `sent` is when its newest heartbeat was sent.
    Entry { id: GrantId, sent: i64 },
    /// The first waiter should send another attempt.
    Recheck { id: GrantId },
}

impl Queue {
    /// Whether it has no elements. An empty list is as good as none: here they are the same.
    pub(crate) fn is_empty(&self) -> bool {
        self.elements().is_empty()
    }

    /// A queue of these entries. It never makes an empty list.
    pub(super) fn of(entries: impl IntoIterator<Item = Entry>) -> Queue {
        Queue::List(entries.into_iter().map(Element::Entry).collect()).without_empty_list()
    }

    pub(crate) fn without_empty_list(self) -> Queue {
        if self == Queue::List(Vec::new()) { Queue::Absent } else { self }
    }

    fn elements(&self) -> &[Element] {
        match self {
            Queue::List(elements) => elements,
            Queue::Absent | Queue::Damaged => &[],
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.elements().iter().filter_map(|element| match element {
            Element::Entry(entry) => Some(entry),
            Element::Damaged(_) => None,
        })
    }

    /// The position of the entry with this value, or of an element that looks like it.
    pub(crate) fn place(&self, value: Value) -> Option<usize> {
        // A path skips elements without a value.
        self.elements().iter().filter_map(Element::value).position(|shown| shown == value)
    }
}

impl Element {
    fn value(&self) -> Option<Value> {
        match self {
            Element::Entry(entry) => Some(entry.value),
            Element::Damaged(value) => *value,
        }
    }
}

impl Entry {
    fn is_live(&self, document: &Document, now: i64) -> bool {
        self.expires_at > now && Some(self.value) != document.value
    }

    /// The entry after a heartbeat. The echo stays with the heartbeat that it belongs to.
    fn heartbeat_confirmed(self, sent: i64, now: i64, life: i64, build: &Build) -> Entry {
        let (heartbeat, expiry) = build.heartbeat;
        let latest = |how, old: i64, new: i64| match how {
            Write::Max => old.max(new),
            Write::Plain => new,
        };
        Entry {
            sent: if self.heartbeat_at > now { self.sent } else { sent },
            heartbeat_at: latest(heartbeat, self.heartbeat_at, now),
            expires_at: latest(expiry, self.expires_at, now + life),
            ..self
        }
    }
}

/// The entries that count, in order: the live ones, and the caller's own, because the caller lives.
pub(super) fn line(document: &Document, ask: &AcquireRequest, now: i64) -> Vec<Entry> {
    let counts = |entry: &&Entry| ask.owns(entry.value) || entry.is_live(document, now);
    document.queue.entries().filter(counts).copied().collect()
}

/// The live entries except the one with this value.
pub(super) fn line_without(document: &Document, value: Value, now: i64) -> Vec<Entry> {
    let counts = |entry: &&Entry| entry.value != value && entry.is_live(document, now);
    document.queue.entries().filter(counts).copied().collect()
}

/// The document with the caller in the queue, in its place or at the end. It is unchanged where the caller does not
/// wait, the queue is full, or the document is damaged.
pub(super) fn joined(
    before: Document,
    ask: &AcquireRequest,
    now: i64,
    mut line: Vec<Entry>,
    build: &Build,
) -> Document {
    let queue = before.queue.clone().without_empty_list();
    let Some(joins) = ask.joins.filter(|_| before.expiry != Expiry::Damaged) else {
        return Document { queue, ..before };
    };
    let fresh = Entry {
        value: ask.value,
        id: ask.id,
        sent: ask.sent,
        heartbeat_at: now,
        expires_at: now + joins.life,
        ttl: ask.ttl,
        max_clock_skew: ask.max_clock_skew,
    };
    if !build.keeps_places {
        line.retain(|entry| !ask.owns(entry.value));
    }
    if let Some(old) = line.iter().find(|entry| ask.owns(entry.value)).copied() {
        let id = if old.value == ask.value { old.id } else { ask.id };
        let Entry { value, ttl, max_clock_skew, .. } = fresh;
        let heartbeat_confirmed = old.heartbeat_confirmed(ask.sent, now, joins.life, build);
        let me = Entry { value, id, ttl, max_clock_skew, ..heartbeat_confirmed };
        line.iter_mut().filter(|entry| ask.owns(entry.value)).for_each(|entry| *entry = me);
    } else if line.len() < joins.queue_max {
        line.push(fresh);
    } else {
        return Document { queue, ..before };
    }
    Document { queue: Queue::of(line), ..before }
}

/// Writes a heartbeat to the entry with this value, and says whether it was there.
pub(crate) fn heartbeat(
    found: Option<Document>,
    value: Value,
    now: i64,
    sent: i64,
    life: i64,
    build: &Build,
) -> (Option<Document>, bool) {
    let Some(mut document) = found else {
        return (None, false);
    };
    let is_there = document.queue.place(value).is_some();
    if let Queue::List(elements) = &mut document.queue {
        for element in elements {
            if let Element::Entry(entry) = element
                && entry.value == value
            {
                *entry = entry.heartbeat_confirmed(sent, now, life, build);
            }
        }
    }
    (Some(document), is_there)
}
