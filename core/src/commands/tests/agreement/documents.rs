//! Reads real documents in the specification's terms, and compares them.

use crate::bson::{self, doc};
use crate::spec::{Admission, Expiry, HolderElement};

use super::queue;
use super::real::{COLLECTION, Real};
use super::small::{Document, Entry, Grant, Promoted, Small};
use super::steps::HOUR;
use crate::commands::tests::reading;

/// Times that differ by less count as equal.
const SAME: i64 = HOUR / 6;

impl Real {
    /// The current document, in the specification's terms.
    pub(super) async fn document(&self, name: &str) -> Option<Document> {
        let collection = self.database.collection::<bson::Document>(COLLECTION);
        let found = collection.find_one(doc! { "name": name }).await.unwrap()?;
        Some(reading::document(&found))
    }

    /// Whether both are equal, except for the time that passes in a test.
    pub(super) fn is_same(&self, found: &Option<Document>, expected: &Option<Document>) -> bool {
        let holders = |document: &Document| {
            let mut holders = document.holders.clone();
            holders.elements_mut().iter_mut().for_each(|element| match element {
                HolderElement::Holder(holder) => {
                    holder.grant.acquired_at = self.rounded(holder.grant.acquired_at);
                    holder.expires_at = self.rounded(holder.expires_at);
                }
                HolderElement::Damaged(damaged) => {
                    damaged.expires_at = damaged.expires_at.map(|at| self.rounded(at));
                }
            });
            holders.without_empty_list()
        };
        let admitted = |document: &Document| {
            let rounded =
                |it: &Admission<Small>| Admission { until: self.rounded(it.until), ..*it };
            document.admitted.iter().map(rounded).collect()
        };
        let rounded = |document: &Document| Document {
            holders: holders(document),
            admitted: admitted(document),
            expiry: match document.expiry {
                Expiry::At(at) => Expiry::At(self.rounded(at)),
                Expiry::Absent | Expiry::Damaged => document.expiry,
            },
            grant: document
                .grant
                .map(|grant| Grant { acquired_at: self.rounded(grant.acquired_at), ..grant }),
            queue: queue::map_entries(&document.queue, |entry| Entry {
                heartbeat_at: self.rounded(entry.heartbeat_at),
                expires_at: self.rounded(entry.expires_at),
                ..entry
            })
            // A missing list and an empty one are equivalent.
            .without_empty_list(),
            ..document.clone()
        };
        found.as_ref().map(rounded) == expected.as_ref().map(rounded)
    }

    /// The time as it is compared: whole hours since the start, if it is close to that.
    pub(super) fn rounded(&self, at: i64) -> i64 {
        let since = at - self.began;
        let hours = (since + HOUR / 2).div_euclid(HOUR);
        if (since - hours * HOUR).abs() < SAME { hours * HOUR } else { since }
    }

    /// The specification's document, with the server's recheck where the end is as late as before.
    ///
    /// The specification's time stands still. On the server, a holder that was admitted or renewed by a later step ends
    /// later by the time between both, and its release makes the end earlier. So the comparison does not see a release
    /// that tells of an end which is as late as before: that costs the waiter an attempt.
    pub(super) fn with_recheck(
        &self,
        after: Document,
        before: Option<&Document>,
        found: Option<&Document>,
    ) -> Document {
        let end = |document: &Document| match document.expiry {
            Expiry::At(at) => Some(self.rounded(at)),
            Expiry::Absent | Expiry::Damaged => None,
        };
        let lasts_as_long = before.is_some_and(|before| end(before) == end(&after));
        let head = after.queue.entries().next().map(|entry| Promoted::Recheck { id: entry.id });
        let told = found.and_then(|found| found.promoted).filter(|_| lasts_as_long);
        let is_of_head = told.is_some() && told == head && after.is_in_shared_use();
        Document { promoted: if is_of_head { told } else { after.promoted }, ..after }
    }
}
