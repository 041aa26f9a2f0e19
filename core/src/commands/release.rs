//! Release: deletes documents, ends grants and admits waiters, or postpones the end.

use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, doc};
use crate::format::{self, grant};
use crate::rules::outcome::{Outcome, REFUSED};
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, millis_up};
use crate::rules::tombstone::TombstoneValues;
use crate::spec::EndScope;

use super::admission::{self, Room, is_of, is_unexpired, waits};
use super::reply::{Ended, decode_counted, decode_update, no_write_error, refused_statements};
use super::variables::{Variable, bind, filter};
use super::{grant_field, is_date, majority, path, queue, simple_collation};
use crate::commands::Command;
use crate::commands::DecodeError;

pub use super::release_target::{Form, ReleaseTarget};
pub use crate::texts::GrantMatch;

/// Deletes lease documents, each only where the target is the only holder and the queue has no entry, live or expired.
/// The effect on each is `spec::delete`.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The grants to end.
    pub targets: Vec<ReleaseTarget>,
}

impl Command for Delete {
    type Reply = Ended;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let delete = |target: &ReleaseTarget| {
            let filter = target.filter_alone();
            Bson::from(doc! { "q": filter, "limit": 1, "collation": simple_collation() })
        };
        doc! {
            "delete": collection,
            "deletes": self.targets.iter().map(delete).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Ended, DecodeError> {
        no_write_error(reply, self.targets.len())?;
        decode_counted(reply)
    }
}

/// Ends grants, each only where the target holds it in this scope, and admits as many waiters as fit. The effect on
/// each is `spec::end`.
#[derive(Clone, Debug)]
pub struct End {
    /// The grants to end.
    pub targets: Vec<ReleaseTarget>,
    /// In which documents it ends them.
    pub scope: EndScope,
    /// Values for documents of leases that end because no waiter is alive.
    pub values: TombstoneValues,
}

impl Command for End {
    type Reply = Ended;

    fn lane(&self) -> Lane {
        Lane::Critical
    }

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let end = |(place, target): (usize, &ReleaseTarget)| {
            let changes = ended(target, &self.values.of_statement(place));
            let changed = doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", changes] } };
            Bson::from(doc! {
                "q": self.filter(target),
                "u": [changed, without_empty_lists()],
                "collation": simple_collation(),
            })
        };
        doc! {
            "update": collection,
            "updates": self.targets.iter().enumerate().map(end).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Ended, DecodeError> {
        match refused_statements(reply, self.targets.len())? {
            None => decode_counted(reply),
            // This answers for the other statements too: sending them again would change nothing.
            Some((_, source)) => {
                let maybe_applied = self.targets.len() > 1;
                Err(DecodeError::Write { source, outcome: Outcome { maybe_applied, ..REFUSED } })
            }
        }
    }
}

impl End {
    fn filter(&self, target: &ReleaseTarget) -> Document {
        let list = || {
            let mut filter = ReleaseTarget::shared(doc! { "$elemMatch": target.in_list() });
            // Without a date, the others of the list do not count, and the name is free.
            filter.insert(format::EXPIRES_AT, doc! { "$type": "date" });
            filter
        };
        let mut any = target.in_form(|| target.in_plain_fields(), list);
        match self.scope {
            EndScope::Anywhere => target.named(any),
            EndScope::BesideOthers => {
                let mut filter = target.named(any);
                let exists = |list: &str, place: u8| {
                    doc! { format!("{list}.{place}"): { "$exists": true } }
                };
                let waits = exists(format::QUEUE, 0);
                let others = match target.form {
                    Form::Plain => vec![waits],
                    Form::List | Form::Either => {
                        let mut shared = exists(format::HOLDERS, 1);
                        shared.insert(format::VALUE, format::SHARED_VALUE);
                        vec![waits, shared]
                    }
                };
                filter.insert("$and", vec![doc! { "$or": others }]);
                filter
            }
            EndScope::HeldOrQueued => {
                any.push(queue::has_element_of(target.value.as_str()));
                target.named(any)
            }
        }
    }
}

/// The fields that change where this target ends, or leaves the queue.
fn ended(target: &ReleaseTarget, nobody: &str) -> Document {
    bind("elements", admission::elements(), |elements| {
        bind("shared", admission::is_shared(elements), |shared| {
            let stays = filter(elements, |each| {
                doc! { "$and": [is_unexpired(each), { "$not": target.is_holder(each) }] }
            });
            bind("kept", doc! { "$cond": [shared, stays, []] }, |kept| {
                bind("open", is_open(target, elements, shared), |open| {
                    let line = filter(queue::entries(), |each| {
                        let is_other = doc! { "$not": is_of(each, &target.value) };
                        doc! { "$and": [queue::is_entry(each), waits(each, kept), is_other] }
                    });
                    let room = Room { asker: None, kept, open };
                    let admitted =
                        room.of_line(line, |of| room.changes(of, kept, freed(nobody, of.rest)));
                    doc! { "$cond": [open, admitted, closed(target, elements)] }
                })
            })
        })
    })
}

/// Whether anybody may be admitted: the lease is free, or the target's, or in shared use by holders that count.
fn is_open(target: &ReleaseTarget, elements: Variable, shared: Variable) -> Document {
    let counting = filter(elements, |each| {
        doc! { "$or": [is_unexpired(each), target.is_holder(each)] }
    });
    let is_any = doc! { "$and": [shared, { "$ne": [counting, []] }] };
    doc! { "$or": [admission::has_no_holder(), target.has_lease(), is_any] }
}

/// The fields that change where nobody holds afterwards. The lease is free by every clock, as a tombstone is.
///
/// The value is that of no holder, or a late renewal would revive the lease. The expiry is set: without one, other
/// programs would not find the lease free, and the server would not remove the document.
fn freed(nobody: &str, rest: Variable) -> Document {
    doc! {
        format::VALUE: nobody,
        format::EXPIRES_AT: DateTime::from_millis(0),
        format::HOLDERS: [],
        format::QUEUE: queue::left(rest),
    }
}

/// The fields that change where nobody may be admitted: the target alone goes.
fn closed(target: &ReleaseTarget, elements: Variable) -> Document {
    let queue = filter(queue::entries(), |each| doc! { "$not": is_of(each, &target.value) });
    let holders = filter(elements, |each| doc! { "$not": target.is_holder(each) });
    let has_list = doc! { "$isArray": [path(format::HOLDERS)] };
    doc! {
        format::QUEUE: queue,
        format::HOLDERS: { "$cond": [has_list, holders, "$$REMOVE"] },
    }
}

/// The stage that removes empty lists.
fn without_empty_lists() -> Document {
    let kept = |field: &str| {
        let list = path(field);
        doc! { "$cond": [{ "$eq": [&list, []] }, "$$REMOVE", &list] }
    };
    let (queue, holders) = (kept(format::QUEUE), kept(format::HOLDERS));
    doc! { "$set": { format::QUEUE: queue, format::HOLDERS: holders } }
}

/// Ends a lease, and keeps its name from others until `hold_at_least` has passed. Its effect is `spec::release_later`.
#[derive(Clone, Debug)]
pub struct EndLater {
    /// The grant to end.
    pub target: ReleaseTarget,
    /// Counted from the grant.
    pub hold_at_least: Duration,
    /// Values for its document, which outlives the holder.
    pub values: TombstoneValues,
}

impl Command for EndLater {
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
            format::PROMOTED: queue::recheck(),
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
