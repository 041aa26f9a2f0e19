//! Release: deletes documents or leaves tombstones, ends grants and admits waiters, or postpones the end.

use super::admission::{Beside, Room, is_of, is_unexpired, waits};
use super::*;
use crate::rules::outcome::{Outcome, REFUSED};
use crate::rules::tombstone::TombstoneValues;
use crate::spec::EndScope;

pub use crate::texts::GrantMatch;

/// Which grant to end: one name, one value, and which of its grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseTarget {
    /// The lease's name.
    pub name: String,
    /// The holder's value.
    pub value: String,
    /// Which of its grants.
    pub grant: GrantMatch,
    /// The form in which the document shows it.
    pub form: Form,
}

/// The form in which a document shows a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In the plain fields: a grant under limit 1.
    Plain,
    /// In the list of holders.
    List,
    /// Nobody knows: an operator names it by its value.
    Either,
}

impl Form {
    /// The form of a grant of these permits.
    pub fn of(permits: Permits) -> Form {
        if permits.is_exclusive() { Form::Plain } else { Form::List }
    }
}

/// Deletes lease documents, each only where the target is the only holder and the queue has no entry, live or expired.
/// The effect on each is `spec::delete`.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The grants to end.
    pub targets: Vec<ReleaseTarget>,
}

impl Command for Delete {
    type Reply = Ended;
    const LANE: Lane = Lane::Release;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let delete = |target: &ReleaseTarget| {
            doc! { "q": target.filter_alone(), "limit": 1, "collation": simple_collation() }
        };
        doc! {
            "delete": collection,
            "deletes": self.targets.iter().map(delete).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn relies_on(&self, _ended: &Ended) -> Reliance {
        // Also of those that it has not matched: an earlier command may have ended them.
        Reliance::on_ends(&self.targets)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Ended, DecodeError> {
        no_write_error(reply, self.targets.len())?;
        decode_counted(reply)
    }
}

/// The expiry of a document that outlives its holder: in 1970, so the lease is free at once by every clock, even one
/// that is behind: a client's, or the next primary's.
const EXPIRED_AT: DateTime = DateTime::from_millis(0);

/// Makes tombstones of lease documents, for the server's TTL monitor to remove, each only where the target is the only
/// holder and the queue has no entry, live or expired. The effect on each is `spec::tombstone`.
///
/// A tombstone is equivalent to no document. It has no grant, no queue, and a value that no holder has, so a late
/// renewal or release matches nothing.
#[derive(Clone, Debug)]
pub struct Tombstone {
    /// The grants to end.
    pub targets: Vec<ReleaseTarget>,
    /// A value for each document, which no holder has.
    pub values: TombstoneValues,
}

/// The outcome of a [`Tombstone`] command.
#[derive(Clone, Debug)]
pub struct Tombstoned {
    /// The leases that were released.
    pub ended: Ended,
    /// The positions of the targets whose tombstones another program's index or validator refused, and the first
    /// refusal. These leases are unchanged.
    pub refused: Option<RefusedStatements>,
}

impl Command for Tombstone {
    type Reply = Tombstoned;
    const LANE: Lane = Lane::Release;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let tombstone = |(place, target): (usize, &ReleaseTarget)| {
            // A whole document and not a pipeline: it replaces all other fields too.
            let left = doc! {
                format::NAME: &target.name,
                format::VALUE: self.values.of_statement(place),
                format::EXPIRES_AT: EXPIRED_AT,
            };
            statement(target.filter_alone(), left)
        };
        update_many(collection, self.targets.iter().enumerate().map(tombstone).collect())
    }

    fn relies_on(&self, _ended: &Tombstoned) -> Reliance {
        Reliance::on_ends(&self.targets)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Tombstoned, DecodeError> {
        let refused = refused_statements(reply, self.targets.len())?;
        Ok(Tombstoned { ended: decode_counted(reply)?, refused })
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
    const LANE: Lane = Lane::Release;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let end = |(place, target): (usize, &ReleaseTarget)| {
            let changes = ended(target, self.form(target), &self.values.of_statement(place));
            let changed = doc! { "$replaceWith": merge("$$ROOT", changes) };
            statement(self.filter(target), vec![changed, without_empty_lists()])
        };
        update_many(collection, self.targets.iter().enumerate().map(end).collect())
    }

    fn relies_on(&self, _ended: &Ended) -> Reliance {
        // Also of those that it has not matched: an earlier command may have ended them.
        Reliance::on_ends(&self.targets)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Ended, DecodeError> {
        let Some((_, source)) = refused_statements(reply, self.targets.len())? else {
            return decode_counted(reply);
        };
        // This answers for the other statements too: sending them again would change nothing.
        let outcome = Outcome { maybe_applied: self.targets.len() > 1, ..REFUSED };
        Err(DecodeError::Write { source, outcome })
    }
}

impl End {
    /// The form in which the documents that the filter finds show the target, or its entry. Without the parts for other
    /// documents, the server has less to parse.
    fn form(&self, target: &ReleaseTarget) -> Form {
        if self.scope == EndScope::HeldOrQueued { Form::Either } else { target.form }
    }

    fn filter(&self, target: &ReleaseTarget) -> Document {
        let list = ReleaseTarget::shared(doc! { "$elemMatch": target.in_list() });
        // Without a date, the others of the list do not count, and the name is free.
        let list = with(list, format::EXPIRES_AT, doc! { "$type": "date" });
        let mut any = target.in_form(target.in_plain_fields(), list);
        match self.scope {
            EndScope::Anywhere => target.named(any),
            EndScope::HeldOrQueued => {
                any.push(queue::has_element_of(target.value.as_str()));
                target.named(any)
            }
            EndScope::BesideOthers => {
                let exists = doc! { "$exists": true };
                let mut others = vec![doc! { format!("{}.0", format::QUEUE): &exists }];
                if target.form != Form::Plain {
                    let second = format!("{}.1", format::HOLDERS);
                    others.push(doc! { second: exists, format::VALUE: format::SHARED_VALUE });
                }
                with(target.named(any), "$and", vec![doc! { "$or": others }])
            }
        }
    }
}

/// The fields that change where this target ends, or leaves the queue.
fn ended(target: &ReleaseTarget, form: Form, nobody: &str) -> Document {
    if form == Form::Plain {
        return ended_alone(nobody);
    }
    in_scope(|scope| {
        let elements = scope.bind("elements", admission::elements());
        let shared = scope.bind("shared", admission::is_shared(elements));
        let stays = |each| all([is_unexpired(each), not(target.is_holder(each))]);
        let kept = scope.bind("kept", cond(shared, filter(elements, stays), NO_ELEMENT));
        let open = if form == Form::List {
            // The target counts.
            doc! { "$or": [admission::has_no_holder(), shared] }
        } else {
            // Anybody may be admitted where the lease is free, or the target's, or held by several that count.
            let counts = |each| any([is_unexpired(each), target.is_holder(each)]);
            let is_any = doc! { "$and": [shared, { "$ne": [filter(elements, counts), []] }] };
            any([admission::has_no_holder(), target.has_lease(), is_any])
        };
        let open = scope.bind("open", open);
        let line = filter(queue::entries(), |each| {
            let is_other = not(is_of(each, &target.value));
            all([queue::is_entry(each), waits(each, kept), is_other])
        });
        let admitted = in_scope(|scope| {
            let room = Room { asker: None, beside: Some(Beside { kept, open }) };
            let of = room.of_line(scope, line);
            room.changes(of, kept, freed(nobody, of.rest))
        });
        cond(open, admitted, closed(target, elements))
    })
}

/// The same where the target has the exclusive lease. `is_live` excludes its own entry: it has the document's value.
fn ended_alone(nobody: &str) -> Document {
    in_scope(|scope| {
        let line =
            filter(queue::entries(), |each| all([queue::is_entry(each), queue::is_live(each)]));
        let room = Room { asker: None, beside: None };
        let of = room.of_line(scope, line);
        room.changes(of, NO_ELEMENT, freed(nobody, of.rest))
    })
}

/// The fields that change where nobody holds afterwards.
///
/// The value is that of no holder, or a late renewal would revive the lease. The expiry is set: without one, other
/// programs would not find the lease free, and the server would not remove the document.
fn freed(nobody: &str, rest: Variable) -> Document {
    doc! {
        format::VALUE: nobody,
        format::EXPIRES_AT: EXPIRED_AT,
        format::HOLDERS: [],
        format::QUEUE: queue::left(rest),
    }
}

/// The fields that change where nobody may be admitted: the target alone goes.
fn closed(target: &ReleaseTarget, elements: Variable) -> Document {
    let queue = filter(queue::entries(), |each| not(is_of(each, &target.value)));
    let holders = filter(elements, |each| not(target.is_holder(each)));
    let has_list = doc! { "$isArray": [path(format::HOLDERS)] };
    doc! { format::QUEUE: queue, format::HOLDERS: cond(has_list, holders, "$$REMOVE") }
}

/// The stage that removes empty lists.
fn without_empty_lists() -> Document {
    let kept = |field| cond(eq(path(field), NO_ELEMENT), "$$REMOVE", path(field));
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
    const LANE: Lane = Lane::Release;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let hold_at_least = millis_up(self.hold_at_least);
        let until = doc! { "$add": [grant_path(grant::ACQUIRED_AT), hold_at_least] };
        // Now if the date is corrupt. The expiry must never be missing: other programs would not find the lease free.
        let until = cond(is_date(&grant_field(grant::ACQUIRED_AT)), until, "$$NOW");
        // A value that no holder has, or a late renewal would revive the lease. The owner stays visible.
        let value = self.values.of_statement(0);
        let ended = doc! {
            format::VALUE: &value,
            grant_field(grant::VALUE): &value,
            format::EXPIRES_AT: until,
            format::PROMOTED: queue::recheck(),
        };
        update_one(collection, statement(self.target.filter(), set(ended)))
    }

    fn relies_on(&self, _has_ended: &bool) -> Reliance {
        // Also if it has matched nothing: an earlier command may have ended it.
        Reliance::on_ends(std::slice::from_ref(&self.target))
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<bool, DecodeError> {
        no_write_error(reply, 1)?;
        decode_update(reply, sent).map(|renewed| renewed.matched > 0)
    }
}
