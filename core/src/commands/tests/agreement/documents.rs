//! Reads real documents in the specification's terms, and compares them.

use crate::bson::doc;
use crate::rules::tombstone::{PREFIX, is_tombstone};
use crate::spec::{Element, Expiry, HolderElement};

use super::real::Real;
use super::steps::HOUR;
use crate::commands::tests::reading;
use crate::texts::{LeaseDocument, Promoted};

/// Times that differ by less count as equal.
const SAME: i64 = HOUR / 6;

impl Real {
    /// The current document in the specification's terms, and the value of the tombstone in it, or of none.
    pub(super) async fn document(&self, name: &str) -> (Option<LeaseDocument>, String) {
        let found = self.collection().find_one(doc! { "name": name }).await.unwrap();
        let value = found.as_ref().and_then(|found| found.get_str("value").ok());
        let nobody = value.filter(|value| is_tombstone(value)).unwrap_or(PREFIX).to_owned();
        (found.as_ref().map(reading::document), nobody)
    }

    /// Whether both are equal, except for the time that passes in a test.
    pub(super) fn is_same(
        &self,
        found: &Option<LeaseDocument>,
        expected: &Option<LeaseDocument>,
    ) -> bool {
        let [found, expected] =
            [found, expected].map(|it| it.clone().map(|document| self.compared(document)));
        found == expected
    }

    /// The document with each time as it is compared. A missing list and an empty one are equivalent.
    fn compared(&self, mut document: LeaseDocument) -> LeaseDocument {
        let round = |time: &mut i64| *time = self.rounded(*time);
        if let Expiry::At(at) = &mut document.expiry {
            round(at);
        }
        document.grant.iter_mut().for_each(|grant| round(&mut grant.acquired_at));
        document.admitted.iter_mut().for_each(|admission| round(&mut admission.until));
        for element in document.queue.elements_mut() {
            if let Element::Entry(entry) = element {
                round(&mut entry.heartbeat_at);
                round(&mut entry.expires_at);
            }
        }
        for element in document.holders.elements_mut() {
            match element {
                HolderElement::Holder(holder) => {
                    round(&mut holder.grant.acquired_at);
                    round(&mut holder.expires_at);
                }
                HolderElement::Damaged(damaged) => damaged.expires_at.iter_mut().for_each(round),
            }
        }
        let (queue, holders) = (document.queue, document.holders);
        let (queue, holders) = (queue.without_empty_list(), holders.without_empty_list());
        LeaseDocument { queue, holders, ..document }
    }

    /// The time as it is compared: whole hours since the start, if it is close to that.
    fn rounded(&self, at: i64) -> i64 {
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
        after: LeaseDocument,
        before: Option<&LeaseDocument>,
        found: Option<&LeaseDocument>,
    ) -> LeaseDocument {
        let end = |document: &LeaseDocument| match document.expiry {
            Expiry::At(at) => Some(self.rounded(at)),
            Expiry::Absent | Expiry::Damaged => None,
        };
        let lasts_as_long = before.is_some_and(|before| end(before) == end(&after));
        let head =
            after.queue.entries().next().map(|entry| Promoted::Recheck { id: entry.id.clone() });
        let told = found.and_then(|found| found.promoted.clone()).filter(|_| lasts_as_long);
        let is_of_head = told.is_some() && told == head && after.is_in_shared_use();
        LeaseDocument { promoted: if is_of_head { told } else { after.promoted }, ..after }
    }
}
