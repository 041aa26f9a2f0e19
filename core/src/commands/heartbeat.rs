//! Heartbeats for many waiters of one manager, and the read that finds lost entries.

use super::find::{documents, find};
use super::*;

/// An entry in one lease's queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueEntry {
    /// The lease's name.
    pub name: String,
    /// The waiter's value.
    pub value: String,
}

/// Sends one heartbeat for all of these entries. The effect on each is `spec::heartbeat`.
///
/// The reply counts documents. So leases with one of the entries share a statement, and a lease with several has a
/// statement of its own, which matches only if all of them are there.
///
/// The filter takes names and values from two lists, and the pipeline compares values alone. A random value is in one
/// lease's queue only. If a caller uses one value of its own for two leases, both entries are its own.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The entries of this manager.
    pub entries: Vec<QueueEntry>,
    /// How long an entry counts after the heartbeat.
    pub waiter_ttl: Duration,
}

impl Command for Heartbeat {
    type Reply = Matched;
    const LANE: Lane = Lane::Critical;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let (sent, waiter_ttl_ms) = (echo(sent), millis_up(self.waiter_ttl));
        let beat = |filter, values: &[Bson]| {
            let queue = queue::heartbeat(values, sent, waiter_ttl_ms);
            statement_for_each(filter, set(doc! { format::QUEUE: queue }))
        };
        let (single, several) = by_document(&self.entries);
        let mut statements = Vec::new();
        if !single.is_empty() {
            statements.push(beat(in_queue(&single), &values(&single)));
        }
        for (name, entries) in several {
            let values = values(&entries);
            statements.push(beat(waiting(name, doc! { "$all": &values }), &values));
        }
        update_each(collection, statements)
    }

    fn relies_on(&self, _beaten: &Matched) -> Reliance {
        // A promotion that counts from it is told when a majority has both.
        Reliance::Nothing
    }

    fn has_written(&self, beaten: &Matched) -> bool {
        beaten.matched > 0
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Matched, DecodeError> {
        decode_update(reply, sent)
    }
}

/// Finds out which of these entries are still in their queues.
#[derive(Clone, Debug)]
pub struct FindEntries {
    /// The entries of this manager.
    pub entries: Vec<QueueEntry>,
}

/// The reply's field for this manager's entries in a document.
const OURS: &str = "ours";

impl Command for FindEntries {
    type Reply = Vec<QueueEntry>;
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let entries: Vec<&QueueEntry> = self.entries.iter().collect();
        let literals: Vec<Document> = values(&entries).into_iter().map(literal).collect();
        let shown = format!("{}.{}", path(format::QUEUE), entry::VALUE);
        let ours = doc! { "$setIntersection": [shown, literals] };
        let projection = doc! { "_id": 0, format::NAME: 1, OURS: ours };
        find(collection, in_queue(&entries), projection, entries.len())
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<QueueEntry>, DecodeError> {
        let entries = |document: &Document| {
            let name = text(document, format::NAME)?;
            let values = document.get_array(OURS).into_iter().flatten().filter_map(Bson::as_str);
            let entry = |value: &str| QueueEntry { name: name.clone(), value: value.to_owned() };
            Some(values.map(entry).collect::<Vec<_>>())
        };
        Ok(documents(reply)?.filter_map(entries).flatten().collect())
    }
}

/// The entries that are alone in their documents, and by name those of which several share one.
pub fn by_document(entries: &[QueueEntry]) -> (Vec<&QueueEntry>, BTreeMap<&str, Vec<&QueueEntry>>) {
    let mut by_name: BTreeMap<&str, Vec<&QueueEntry>> = BTreeMap::new();
    for entry in entries {
        by_name.entry(&entry.name).or_default().push(entry);
    }
    let is_single = |entry: &&QueueEntry| by_name[entry.name.as_str()].len() == 1;
    let single = entries.iter().filter(is_single).collect();
    by_name.retain(|_, entries| entries.len() > 1);
    (single, by_name)
}

fn values(entries: &[&QueueEntry]) -> Vec<Bson> {
    entries.iter().map(|entry| entry.value.as_str().into()).collect()
}

fn in_queue(entries: &[&QueueEntry]) -> Document {
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    waiting(doc! { "$in": names }, doc! { "$in": values(entries) })
}

/// A filter for these names, with a queue in which these values are. The entries of a damaged document do not count: an
/// attempt reports what is wrong.
fn waiting(names: impl Into<Bson>, values: Document) -> Document {
    let mut filter = doc! { format::NAME: names.into(), "$expr": has_sound_expiry() };
    filter.extend(queue::has_element_of(values));
    filter
}
