//! Release: deletes the document, hands the lease off, or postpones its end.

use std::time::Duration;

use crate::bson::{Bson, Document, doc};
use crate::format::{self, grant, holder};
use crate::rules::ids::{CallId, GrantId};
use crate::rules::outcome::{Outcome, REFUSED};
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, millis_up};
use crate::rules::tombstone::TombstoneValues;

use super::queue::Left;
use super::reply::{
    Deleted, HandedOff, decode_counted, decode_handed_off, decode_update, no_write_error,
    refused_statements,
};
use super::snapshot::LeaseSnapshot;
use super::{
    grant_field, has_sound_expiry, held, is_date, literal, majority, path, queue, simple_collation,
};
use crate::commands::Command;
use crate::commands::DecodeError;

/// Which lease to release: one name held by one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseTarget {
    /// The lease's name.
    pub name: String,
    /// The holder's value.
    pub value: String,
    /// Which grants of this value are meant.
    pub grant: GrantMatch,
}

/// Which of a value's grants to release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantMatch {
    /// Any grant: matches by name and value.
    Any,
    /// This grant.
    Grant(GrantId),
    /// Any grant of this call's attempts, except the one that the caller accepted: that one is released by its own id.
    Call {
        /// The call.
        call_id: CallId,
        /// The grant that the caller accepted.
        except: Option<GrantId>,
    },
}

impl ReleaseTarget {
    /// Selects the document where this target holds the lease, if it is not damaged.
    fn filter(&self) -> Document {
        let mut filter = self.holder_filter();
        filter.insert("$expr", has_sound_expiry());
        filter
    }

    fn holder_filter(&self) -> Document {
        let mut filter = held(&self.name, &self.value, None);
        let id = grant_field(grant::ID);
        match &self.grant {
            GrantMatch::Any => {}
            GrantMatch::Grant(grant_id) => {
                filter.insert(id, grant_id.as_str());
            }
            GrantMatch::Call { call_id, except } => {
                let grants = call_id.grants();
                let mut of_call = doc! { "$gte": grants.start, "$lt": grants.end };
                if let Some(taken) = except {
                    of_call.insert("$ne", taken.as_str());
                }
                filter.insert(id, of_call);
            }
        }
        filter
    }

    /// The same filter, which also requires that the queue has no entry, live or expired.
    pub(super) fn filter_without_queue(&self) -> Document {
        let mut filter = self.filter();
        filter.insert(format!("{}.0", format::QUEUE), doc! { "$exists": false });
        filter
    }

    /// Whether a document shows that this target holds the lease.
    pub fn is(&self, seen: &LeaseSnapshot) -> bool {
        let grant_id = seen.grant_id.as_ref();
        let is_grant = match &self.grant {
            GrantMatch::Any => true,
            GrantMatch::Grant(wanted) => grant_id == Some(wanted),
            GrantMatch::Call { call_id, except } => {
                grant_id.is_some_and(|id| call_id.has(id) && except.as_ref() != Some(id))
            }
        };
        seen.info.name == self.name && seen.info.value.as_ref() == Some(&self.value) && is_grant
    }

    /// Whether a document may have this target among its holders. A read for releases shows no holders, so this is for
    /// releases by value, which do not know which form the lease has.
    pub fn may_share(&self, seen: &LeaseSnapshot) -> bool {
        self.grant == GrantMatch::Any && seen.info.name == self.name && seen.info.shared
    }

    /// An expression: this target holds the lease. Needed where the filter lets others through.
    fn holds(&self) -> Document {
        let value = doc! { "$eq": [path(format::VALUE), literal(&self.value)] };
        let id = path(&grant_field(grant::ID));
        match &self.grant {
            GrantMatch::Any => value,
            GrantMatch::Grant(grant_id) => {
                doc! { "$and": [value, { "$eq": [id, literal(grant_id.as_str())] }] }
            }
            GrantMatch::Call { call_id, except } => {
                doc! { "$and": [value, queue::is_grant_of(call_id, except.as_ref())] }
            }
        }
    }
}

/// Deletes lease documents, each only where the target holds the lease and the queue has no entry, live or expired. The
/// effect on each is `spec::release`.
#[derive(Clone, Debug)]
pub struct Release {
    /// The grants that end.
    pub targets: Vec<ReleaseTarget>,
}

impl Command for Release {
    type Reply = Deleted;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let delete = |target: &ReleaseTarget| {
            let filter = target.filter_without_queue();
            Bson::from(doc! { "q": filter, "limit": 1, "collation": simple_collation() })
        };
        doc! {
            "delete": collection,
            "deletes": self.targets.iter().map(delete).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Deleted, DecodeError> {
        no_write_error(reply, self.targets.len())?;
        decode_counted(reply)
    }
}

/// Hands leases off, each only where the target holds it: to the first live waiter. The effect on each is
/// `spec::hand_off`, and `spec::is_left_to_admit` says which leases it leaves to another command.
#[derive(Clone, Debug)]
pub struct HandOff {
    /// The grants that end.
    pub targets: Vec<ReleaseTarget>,
    /// The rule for the next holder.
    pub to: HandOffTo,
    /// Values for documents of leases that end because no waiter is alive.
    pub values: TombstoneValues,
}

/// To whom a lease is handed off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOffTo {
    /// A live waiter. If there is none, nothing happens.
    LiveWaiter,
    /// A live waiter, or nobody: then the lease ends, and the server removes the document.
    LiveWaiterOrNobody,
    /// The same; and a target that does not hold the lease leaves the queue.
    AfterLeavingQueue,
}

impl Command for HandOff {
    type Reply = HandedOff;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let hand_off = |(place, target): (usize, &ReleaseTarget)| {
            let ended_value = self.values.of_statement(place);
            let left = self.left(target);
            Bson::from(doc! {
                "q": self.filter(target),
                "u": queue::handed_on(&target.value, target.holds(), left, &ended_value),
                "collation": simple_collation(),
            })
        };
        doc! {
            "update": collection,
            "updates": self.targets.iter().enumerate().map(hand_off).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<HandedOff, DecodeError> {
        match refused_statements(reply, self.targets.len())? {
            None => decode_handed_off(reply),
            // This answers for the other statements too: sending them again would change nothing.
            Some((_, source)) => {
                let maybe_applied = self.targets.len() > 1;
                Err(DecodeError::Write { source, outcome: Outcome { maybe_applied, ..REFUSED } })
            }
        }
    }
}

impl HandOff {
    fn left(&self, target: &ReleaseTarget) -> Left {
        // An operator names a holder of either form by its value alone.
        let is_by_value = target.grant == GrantMatch::Any;
        match self.to == HandOffTo::LiveWaiterOrNobody && is_by_value {
            true => Left::WithSharesAnywhere,
            false => Left::WithSharesInQueue,
        }
    }

    fn filter(&self, target: &ReleaseTarget) -> Document {
        let or = |other: Document| {
            let mut holder = target.holder_filter();
            holder.remove(format::NAME);
            let either = vec![holder, other];
            doc! { format::NAME: &target.name, "$or": either, "$expr": has_sound_expiry() }
        };
        match self.to {
            HandOffTo::LiveWaiter => {
                let mut filter = target.holder_filter();
                let conditions = vec![has_sound_expiry(), queue::is_waited_for(&target.value)];
                filter.insert("$expr", doc! { "$and": conditions });
                filter
            }
            HandOffTo::LiveWaiterOrNobody if self.left(target) == Left::WithSharesAnywhere => {
                or(doc! {
                    format::VALUE: format::SHARED_VALUE,
                    format::HOLDERS: { "$elemMatch": { holder::VALUE: &target.value } },
                })
            }
            HandOffTo::LiveWaiterOrNobody => target.filter(),
            HandOffTo::AfterLeavingQueue => or(queue::has_element_of(target.value.as_str())),
        }
    }
}

/// Ends a lease, and keeps its name from others until `hold_at_least` has passed. Its effect is `spec::release_later`.
#[derive(Clone, Debug)]
pub struct ReleaseLater {
    /// The grant that ends.
    pub target: ReleaseTarget,
    /// Counted from the grant.
    pub hold_at_least: Duration,
    /// Values for its document, which outlives the holder.
    pub values: TombstoneValues,
}

impl Command for ReleaseLater {
    /// Whether the target held the lease.
    type Reply = bool;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let acquired_at = path(&grant_field(grant::ACQUIRED_AT));
        let until = doc! { "$add": [acquired_at, millis_up(self.hold_at_least)] };
        // If the date is corrupt, the lease ends now. The expiry must never be missing: other programs would not find
        // the lease free.
        let until = doc! { "$cond": [is_date(&grant_field(grant::ACQUIRED_AT)), until, "$$NOW"] };
        // A value that no holder has, or a late renewal would revive the lease. The owner stays visible.
        let value = self.values.of_statement(0);
        let ended = doc! {
            format::VALUE: &value,
            grant_field(grant::VALUE): &value,
            format::EXPIRES_AT: until,
            format::PROMOTED: queue::recheck(&self.target.value),
        };
        doc! {
            "update": collection,
            "updates": [{
                "q": self.target.filter(),
                "u": [{ "$set": ended }],
                "collation": simple_collation(),
            }],
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<bool, DecodeError> {
        no_write_error(reply, 1)?;
        decode_update(reply, sent).map(|renewed| renewed.matched > 0)
    }
}
