//! The results of the steps by the specification.

use crate::spec::{self, EndScope, Expiry, Holders, Protections, Types};

use super::small::{AcquireAnswer, AcquireAttempt, Document, Grant, Queue, Small, Value};
use super::steps::{Answer, GRANTED_BEFORE, HOUR, LIFE, Step, Target, Write, first_attempt};
use super::{holders, queue};
use crate::commands::release::Form;

impl Step {
    /// The step's result by the specification, with these protections.
    pub(super) fn in_the_spec(
        self,
        found: Option<Document>,
        now: i64,
        sent: i64,
        protections: &impl Protections,
    ) -> (Option<Document>, Answer) {
        let matched = |(after, is_there)| (after, Answer::Matched(is_there));
        match self {
            Step::Acquire(asked) => {
                acquired(spec::acquire(found, &AcquireAttempt { sent, ..asked }, now, protections))
            }
            Step::FastAcquire { request, with_others } => {
                let request = first_attempt(request, sent);
                let (after, reply) = spec::fast_acquire(found, &request, now, protections);
                // One read answers many attempts in one command.
                let read = after.as_ref().filter(|_| with_others);
                let reply = read.map_or(reply, |after| spec::fast_reply(after, &request, now));
                acquired((after, reply))
            }
            Step::FastAdmit(request) => {
                let request = first_attempt(request, sent);
                let (after, reply) = spec::fast_admit(found, &request, now, protections);
                let read = after.as_ref().map(|it| spec::fast_admit_reply(it, &request, now));
                assert_eq!(read, Some(reply), "the reply is read from the document");
                acquired((after, reply))
            }
            Step::Insert(request) => {
                match spec::insert(found, &AcquireAttempt { sent, ..request }, now, protections) {
                    (after, AcquireAnswer::Granted(id)) => (after, Answer::Granted(id)),
                    // An insert is refused only if a document exists.
                    (after, _) => (after, Answer::Matched(false)),
                }
            }
            Step::Heartbeat { value } => {
                matched(spec::heartbeat(found, &value, now, sent, LIFE, protections))
            }
            Step::FindEntries { value } => found_entries(found, value),
            Step::Renew { key, lasts } => {
                matched(spec::renew(found, &key, lasts, now, sent, protections))
            }
            Step::RenewHolders { keys } => {
                let grants: Vec<_> = keys.into_iter().map(|(key, lasts)| (key.id, lasts)).collect();
                matched(spec::renew_holders(found, &grants, now, sent, protections))
            }
            Step::Resume { key, fresh, terms } => {
                matched(spec::resume(found, &key, fresh, terms, now, sent, protections))
            }
            Step::Guard { key, lasts, commits } => {
                match spec::guard(found.clone(), &key, lasts, now, sent, protections) {
                    Some(written) if commits => (Some(written), Answer::Matched(true)),
                    Some(_) => (found, Answer::Matched(true)),
                    None => (found, Answer::Matched(false)),
                }
            }
            Step::Delete(_) | Step::Tombstone(_) | Step::End { .. } | Step::EndLater { .. } => {
                matched(self.released(found, now, protections))
            }
            Step::ForeignAcquire { value } => {
                matched(spec::foreign_acquire(found, value, now, 4 * HOUR))
            }
            Step::ForeignRelease { value } => matched(spec::foreign_release(found, &value)),
            Step::TtlDelete => {
                let (was_there, after) = (found.is_some(), spec::ttl_delete(found, now));
                let is_deleted = was_there && after.is_none();
                (after, Answer::Matched(is_deleted))
            }
            Step::Write(write) => (found.map(|it| write.written_to(it, now)), Answer::Done),
        }
    }

    /// The document after a release, and whether it matched.
    fn released(
        self,
        found: Option<Document>,
        now: i64,
        protections: &impl Protections,
    ) -> (Option<Document>, bool) {
        match self {
            Step::Delete(target) if target.is_of(found.as_ref()) => {
                spec::delete(found, &target.value, &target.which, protections)
            }
            Step::Tombstone(target) if target.is_of(found.as_ref()) => {
                spec::tombstone(found, &target.value, &target.which, protections)
            }
            Step::End { target, scope }
                if target.is_of(found.as_ref()) || target.leaves(found.as_ref(), scope) =>
            {
                spec::end(found, &target.value, &target.which, scope, now, protections)
            }
            Step::EndLater { target: Target { value, which, .. }, hold_at_least } => {
                spec::release_later(found, &value, &which, hold_at_least, now)
            }
            // It looks for another form.
            Step::Delete(_) | Step::Tombstone(_) | Step::End { .. } => (found, false),
            Step::Acquire(_)
            | Step::FastAcquire { .. }
            | Step::FastAdmit(_)
            | Step::Insert(_)
            | Step::Heartbeat { .. }
            | Step::FindEntries { .. }
            | Step::Renew { .. }
            | Step::RenewHolders { .. }
            | Step::Resume { .. }
            | Step::Guard { .. }
            | Step::ForeignAcquire { .. }
            | Step::ForeignRelease { .. }
            | Step::TtlDelete
            | Step::Write(_) => unreachable!("{self:?}"),
        }
    }
}

impl Target {
    /// Whether a document shows its holders in the form that the command looks for.
    ///
    /// The form narrows the filter alone: the specification, which has no such hint, reads both.
    fn is_of(self, found: Option<&Document>) -> bool {
        let is_shared = found.is_some_and(Document::is_in_shared_use);
        match self.form {
            Form::Plain => !is_shared,
            Form::List => is_shared,
            Form::Either => true,
        }
    }

    /// Whether it has an entry that an end in this scope takes out of the queue, in documents of either form.
    fn leaves(self, found: Option<&Document>, scope: EndScope) -> bool {
        let is_queued = found.is_some_and(|found| found.queue.position(&self.value).is_some());
        scope == EndScope::HeldOrQueued && is_queued
    }
}

impl Write {
    fn written_to(self, document: Document, now: i64) -> Document {
        match self {
            Write::Expiry { to: Expiry::At(hours), .. } => {
                Document { expiry: Expiry::At(now + hours * HOUR), ..document }
            }
            Write::Expiry { to, .. } => Document { expiry: to, ..document },
            Write::Value(value) => Document { value, ..document },
            Write::GrantedAt => {
                let acquired_at = now - GRANTED_BEFORE;
                let grant = document.grant.map(|grant| Grant { acquired_at, ..grant });
                Document { grant, ..document }
            }
            Write::Ttl(ttl) => {
                // A missing one is read as a number that no step writes.
                let ttl = ttl.unwrap_or(i64::MIN);
                let grant = document.grant.map(|grant| Grant { ttl, ..grant });
                Document { grant, ..document }
            }
            Write::DamagedGrant => Document { grant: None, ..document },
            Write::Queue(to) => Document { queue: queue::queue_of(&to), ..document },
            Write::DamagedQueue { .. } => Document { queue: Queue::Damaged, ..document },
            Write::Holders { to, top, queue } => {
                let expiry = match top {
                    Some(Expiry::At(hours)) => Expiry::At(now + hours * HOUR),
                    Some(other) => other,
                    None => Expiry::At(holders::latest(&to, now)),
                };
                let holders = holders::holders_of(&to, now);
                let queue = queue.map_or(document.queue, |to| queue::queue_of(&to));
                Document { value: Some(Small::shared()), expiry, holders, queue, ..document }
            }
            Write::DamagedHolders { .. } => Document { holders: Holders::Damaged, ..document },
        }
    }
}

fn found_entries(found: Option<Document>, value: Value) -> (Option<Document>, Answer) {
    let sound = found.as_ref().filter(|it| it.expiry != Expiry::Damaged);
    let is_there = sound.is_some_and(|it| it.queue.position(&value).is_some());
    (found, Answer::Matched(is_there))
}

fn acquired((after, acquired): (Option<Document>, AcquireAnswer)) -> (Option<Document>, Answer) {
    let answer = match acquired {
        AcquireAnswer::Granted(id) => Answer::Granted(id),
        AcquireAnswer::Refused { ahead, remaining } => Answer::refused(ahead, remaining),
        AcquireAnswer::UseSlowForm => Answer::Unclear,
    };
    (after, answer)
}
