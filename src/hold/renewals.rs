//! Groups due leases into renewal commands, and tells each lease what became of its renewal.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{GrantKey, LeaseSnapshot, SharedSnapshot};
use mongo_lease_core::rules::{
    Delays, HoldAction, HoldEvent, Instant, RENEWALS_MAX, apart, piece_time, pieces,
};

use super::loss::{loss_of, share_of};
use crate::hold::{AgendaKey, Holding};
use crate::retry::RetryPolicy;
use crate::telemetry;

/// A lease in the renewer's agenda, with its number.
pub(super) type NumberedHolding = (AgendaKey, Arc<Holding>);

pub(super) struct Due {
    pub(super) member: NumberedHolding,
    /// Renewed in a command of its document, because a transaction may hold that.
    pub(super) alone: bool,
}

impl Due {
    fn name(&self) -> &str {
        self.member.1.key.name()
    }
}

/// Leases that one command renews.
pub(super) struct Batch {
    pub(super) members: Vec<NumberedHolding>,
    /// When the rules declared them due.
    pub(super) planned_at: Instant,
    /// All are in one document, which is likely to be blocked.
    pub(super) is_blocked: bool,
    /// Whether others may hold these leases too. Those have a command of their own.
    pub(super) is_shared: bool,
    deadline: Duration,
}

impl Batch {
    pub(super) fn policy(&self, now: Instant) -> RetryPolicy {
        RetryPolicy::one_attempt(now, self.deadline)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(_, holding)| holding.key.name())
    }

    /// How many documents its renewal matches if all leases are still there. Those of one name are in one document.
    pub(super) fn documents(&self) -> i64 {
        let documents =
            if self.is_shared { self.distinct_names().len() } else { self.members.len() };
        i64::try_from(documents).unwrap_or(i64::MAX)
    }

    pub(super) fn keys(&self) -> Vec<GrantKey> {
        self.members.iter().map(|(_, holding)| GrantKey::clone(&holding.key)).collect()
    }

    pub(super) fn distinct_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// After which delay they are renewed again, if this renewal has failed. A refusal does not pass soon.
    pub(super) fn retry_after(&self, is_refused: bool) -> Duration {
        let Some((_, holding)) = self.members.first() else { return Duration::ZERO };
        let renew_after = self.members.iter().map(|(_, holding)| holding.timing.renew_after).min();
        let first = renew_after.unwrap_or_default() / if is_refused { 4 } else { 20 };
        let delays = Delays { first, longest: first };
        holding.clock().jittered(delays).next().unwrap_or(first)
    }

    /// A batch of these members alone, to be sent again.
    pub(super) fn of(&self, members: Vec<NumberedHolding>) -> Batch {
        let Batch { planned_at, is_blocked, is_shared, deadline, .. } = *self;
        Batch { members, planned_at, is_blocked, is_shared, deadline }
    }

    /// Splits the batch, or returns it as an error if it has one lease only. Each piece has two thirds of the time of
    /// the whole: so one blocked lease among 2,000 is isolated while there is still time for the others.
    pub(super) fn pieces(self) -> Result<Vec<Batch>, Batch> {
        let Batch { members, planned_at, is_blocked, is_shared, deadline } = self;
        let batch =
            |members, deadline| Batch { members, planned_at, is_blocked, is_shared, deadline };
        match pieces(members, |(_, holding)| holding.key.name()) {
            Ok(pieces) => {
                Ok(pieces.into_iter().map(|it| batch(it, piece_time(deadline))).collect())
            }
            Err(members) => Err(batch(members, deadline)),
        }
    }
}

/// The order of magnitude of the time that a renewal of this lease has. The shortest time of a command is that of all
/// its leases. So leases share a command only where the longest time is less than twice the shortest.
fn magnitude((_, holding): &NumberedHolding) -> u32 {
    let millis = holding.timing.bulk_deadline().as_millis();
    millis.checked_ilog2().unwrap_or(0)
}

/// Groups due leases into commands. Those whose document a transaction may hold get a command of their own.
pub(super) fn batches(due: Vec<Due>, planned_at: Instant) -> impl Iterator<Item = Batch> {
    let is_shared = |(_, holding): &NumberedHolding| !holding.permits.is_exclusive();
    let (mut shared, exclusive): (Vec<Due>, Vec<Due>) =
        due.into_iter().partition(|due| is_shared(&due.member));
    // So that those of one name share a command, of which the reply tells whether all of them were there.
    shared.sort_by(|one, other| one.name().cmp(other.name()));
    let mut commands: Vec<(Vec<NumberedHolding>, bool)> = Vec::new();
    for due in [exclusive, shared] {
        let (alone, together) = apart(due, Due::name, |due| due.alone);
        let document = |due: Vec<Due>| (due.into_iter().map(|due| due.member).collect(), true);
        commands.extend(alone.into_iter().map(document));
        let mut by_time: BTreeMap<u32, Vec<NumberedHolding>> = BTreeMap::new();
        for due in together {
            by_time.entry(magnitude(&due.member)).or_default().push(due.member);
        }
        for members in by_time.into_values() {
            let mut members = members.into_iter().peekable();
            while members.peek().is_some() {
                commands.push((members.by_ref().take(RENEWALS_MAX).collect(), false));
            }
        }
    }
    commands.into_iter().map(move |(members, is_blocked)| {
        let deadlines = members.iter().map(|(_, holding)| holding.timing.bulk_deadline());
        let deadline = deadlines.min().unwrap_or_default();
        let is_shared = members.first().is_some_and(is_shared);
        Batch { deadline, members, planned_at, is_blocked, is_shared }
    })
}

/// The echoes that show a renewal, and what their lack means.
pub(super) struct WrittenBy {
    sent: Instant,
    /// The newest one.
    until: Instant,
    otherwise: &'static str,
    /// Whether the lack of them is as good as a refusal.
    is_refused: bool,
}

impl WrittenBy {
    /// The document was written by the command that was sent at this moment.
    pub(super) fn this(sent: Instant) -> WrittenBy {
        let otherwise = "its document is damaged";
        WrittenBy { sent, until: sent, otherwise, is_refused: true }
    }

    /// The same, or by a later one, which has found the grant there and only prolonged it.
    pub(super) fn this_or_later(sent: Instant, now: Instant) -> WrittenBy {
        let otherwise = "another primary has not got the renewal";
        WrittenBy { sent, until: now, otherwise, is_refused: false }
    }

    fn is_shown_by(&self, echo: Option<i64>) -> bool {
        let echo = echo.and_then(|echo| u64::try_from(echo).ok());
        echo.is_some_and(|echo| (self.sent.as_micros()..=self.until.as_micros()).contains(&echo))
    }
}

/// The outcomes of a renewal by a look at the documents that it named: it matched fewer of them, or was unconfirmed.
///
/// The echo tells which documents this very command has written.
pub(super) fn after_look(
    batch: &Batch,
    seen: &[LeaseSnapshot],
    by: &WrittenBy,
) -> Vec<(AgendaKey, HoldAction)> {
    let by_name: HashMap<&str, &LeaseSnapshot> =
        seen.iter().map(|seen| (seen.info.name.as_str(), seen)).collect();
    let retry_after = batch.retry_after(by.is_refused);
    let outcome = |member: &NumberedHolding| {
        let (number, holding) = member;
        let found = by_name.get(holding.key.name()).copied();
        match loss_of(&holding.key, found) {
            Some(reason) => (*number, holding.on(HoldEvent::NotOurs, Some(reason))),
            None if by.is_shown_by(found.and_then(|seen| seen.sent)) => renewed(member, by.sent),
            None => not_written(member, batch.planned_at, by, retry_after),
        }
    };
    batch.members.iter().map(outcome).collect()
}

/// The same as [`after_look`] for leases that others may hold too. Returns also the leases that were kept from being
/// renewed by another one of their names that has ended: to be renewed again, without that one.
pub(super) fn after_look_at_holders(
    batch: &Batch,
    seen: &[SharedSnapshot],
    by: &WrittenBy,
) -> (Vec<(AgendaKey, HoldAction)>, Vec<NumberedHolding>) {
    let by_name: HashMap<&str, &SharedSnapshot> =
        seen.iter().map(|seen| (seen.lease.info.name.as_str(), seen)).collect();
    let found = |holding: &Holding| {
        share_of(&holding.key, by_name.get(holding.key.name()).copied())
            .map(|holder| by.is_shown_by(holder.sent))
    };
    // A release of this process may not show in a read yet.
    let has_ended = |holding: &Holding| holding.has_ended() || found(holding).is_err();
    let ended = batch.members.iter().filter(|(_, holding)| has_ended(holding));
    let incomplete: HashSet<&str> = ended.map(|(_, holding)| holding.key.name()).collect();
    let (mut outcomes, mut again) = (Vec::new(), Vec::new());
    let retry_after = batch.retry_after(by.is_refused);
    for member in &batch.members {
        let (number, holding) = member;
        match found(holding) {
            Err(reason) => {
                outcomes.push((*number, holding.on(HoldEvent::NotOurs, Some(reason))));
            }
            Ok(true) => outcomes.push(renewed(member, by.sent)),
            // Its release takes it off the agenda.
            Ok(false) if holding.has_ended() => {}
            Ok(false) if incomplete.contains(holding.key.name()) => again.push(member.clone()),
            Ok(false) => outcomes.push(not_written(member, batch.planned_at, by, retry_after)),
        }
    }
    (outcomes, again)
}

/// Reports to the rules that the renewal is not in the lease's document.
fn not_written(
    member: &NumberedHolding,
    sent: Instant,
    by: &WrittenBy,
    retry_after: Duration,
) -> (AgendaKey, HoldAction) {
    telemetry::renewal_failed(1, member.1.key.name(), by.otherwise);
    failed(member, sent, by.otherwise, retry_after)
}

/// Reports a confirmed renewal to the rules.
pub(super) fn renewed(
    (number, holding): &NumberedHolding,
    sent: Instant,
) -> (AgendaKey, HoldAction) {
    let next = holding.on(HoldEvent::Renewed(sent), None);
    // A release may have come while it waited for a majority.
    if matches!(next, HoldAction::WakeAt(_)) && !holding.has_ended() {
        holding.tell_renewed();
    }
    (*number, next)
}

/// Reports an unconfirmed renewal to the rules.
pub(super) fn failed(
    (number, holding): &NumberedHolding,
    sent: Instant,
    reason: &str,
    retry_after: Duration,
) -> (AgendaKey, HoldAction) {
    holding.note_error(reason);
    let next = holding.on(HoldEvent::RenewalFailed { sent, retry_after }, None);
    if matches!(next, HoldAction::WakeAt(_)) {
        holding.tell_renewal_failed(reason);
    }
    (*number, next)
}
