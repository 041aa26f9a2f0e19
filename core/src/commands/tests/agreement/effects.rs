//! The results of the steps by the specification.

use crate::spec::{self, EndScope, Expiry, Protections};

use super::steps::{Answer, Ending, HOUR, How, LIFE, Step, Target};
use super::texts::{AcquireAnswer, AcquireAttempt, foreign};
use crate::commands::release::Form;
use crate::texts::LeaseDocument;

impl Step {
    /// The step's result by the specification, with these protections.
    pub(super) fn in_the_spec(
        self,
        found: Option<LeaseDocument>,
        now: i64,
        sent: i64,
        protections: &impl Protections,
    ) -> (Option<LeaseDocument>, Answer) {
        let (after, is_matched) = match self {
            Step::Acquire(how, request) => {
                return how.in_the_spec(found, &how.sends(request, sent), now, protections);
            }
            Step::Write(write) => return (found.map(|it| write.written_to(it)), Answer::Done),
            Step::Heartbeat(value) => spec::heartbeat(found, &value, now, sent, LIFE, protections),
            Step::FindEntries(value) => {
                let sound = found.as_ref().filter(|it| it.expiry != Expiry::Damaged);
                let is_there = sound.is_some_and(|it| it.queue.position(&value).is_some());
                (found, is_there)
            }
            Step::Renew(key, lasts) => spec::renew(found, &key, lasts, now, sent, protections),
            Step::RenewHolders(keys) => {
                let grants: Vec<_> = keys.into_iter().map(|(key, lasts)| (key.id, lasts)).collect();
                spec::renew_holders(found, &grants, now, sent, protections)
            }
            Step::Resume { key, fresh, terms } => {
                spec::resume(found, &key, fresh, terms, now, sent, protections)
            }
            Step::Guard { key, lasts, commits } => {
                let written = spec::guard(found.clone(), &key, lasts, now, sent, protections);
                let is_matched = written.is_some();
                (written.filter(|_| commits).or(found), is_matched)
            }
            Step::Release(target, ending) => ending.in_the_spec(target, found, now, protections),
            Step::ForeignAcquire => spec::foreign_acquire(found, foreign(), now, 4 * HOUR),
            Step::ForeignRelease(value) => spec::foreign_release(found, &value),
            Step::TtlDelete => {
                let after = spec::ttl_delete(found.clone(), now);
                let is_deleted = found.is_some() && after.is_none();
                (after, is_deleted)
            }
        };
        (after, Answer::Matched(is_matched))
    }
}

impl How {
    fn in_the_spec(
        self,
        found: Option<LeaseDocument>,
        request: &AcquireAttempt,
        now: i64,
        protections: &impl Protections,
    ) -> (Option<LeaseDocument>, Answer) {
        let (after, answer) = match self {
            How::Slow => spec::acquire(found, request, now, protections),
            How::Insert => spec::insert(found, request, now, protections),
            How::Fast => spec::fast_acquire(found, request, now, protections),
            How::FastWithOthers => {
                let (after, alone) = spec::fast_acquire(found, request, now, protections);
                // One read answers many attempts in one command.
                let read = after.as_ref().map(|after| spec::fast_reply(after, request, now));
                (after, read.unwrap_or(alone))
            }
            How::Admit => {
                let (after, reply) = spec::fast_admit(found, request, now, protections);
                let read = after.as_ref().map(|it| spec::fast_admit_reply(it, request, now));
                assert_eq!(read.as_ref(), Some(&reply), "the reply is read from the document");
                (after, reply)
            }
        };
        let answer = match (self, answer) {
            (_, AcquireAnswer::Granted(id)) => Answer::Granted(id),
            // An insert is refused only if a document exists.
            (How::Insert, _) => Answer::Matched(false),
            (_, AcquireAnswer::Refused { ahead, remaining }) => Answer::refused(ahead, remaining),
            (_, AcquireAnswer::UseSlowForm) => Answer::Unclear,
        };
        (after, answer)
    }
}

impl Ending {
    /// The document after a release, and whether it matched.
    fn in_the_spec(
        self,
        target: Target,
        found: Option<LeaseDocument>,
        now: i64,
        protections: &impl Protections,
    ) -> (Option<LeaseDocument>, bool) {
        let Target { value, which, form } = target;
        let is_queued = found.as_ref().is_some_and(|it| it.queue.position(&value).is_some());
        // The form narrows the filter alone: the specification, which has no such hint, reads both.
        let is_shared = found.as_ref().is_some_and(LeaseDocument::is_in_shared_use);
        let is_in_form = form == Form::Either || is_shared == (form == Form::List);
        match self {
            Ending::Delete if is_in_form => spec::delete(found, &value, &which, protections),
            Ending::Tombstone if is_in_form => spec::tombstone(found, &value, &which, protections),
            Ending::End(scope) if is_in_form || scope == EndScope::HeldOrQueued && is_queued => {
                spec::end(found, &value, &which, scope, now, protections)
            }
            Ending::Later(held) => spec::release_later(found, &value, &which, held, now),
            // It looks for another form.
            Ending::Delete | Ending::Tombstone | Ending::End(_) => (found, false),
        }
    }
}
