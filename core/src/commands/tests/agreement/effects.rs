//! The results of the steps by the specification.

use crate::spec::{self, Expiry, FastReply, Protections};

use super::queue;
use super::small::{AcquireReply, AcquireRequest, Document, Grant, Queue, Value};
use super::steps::{Answer, GRANTED_BEFORE, HOUR, LIFE, Step, Write, first_attempt};

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
                acquired(spec::acquire(found, &AcquireRequest { sent, ..asked }, now, protections))
            }
            Step::FastAcquire { request, with_others } => {
                let request = first_attempt(request, sent);
                let (after, reply) = spec::fast_acquire(found, &request, now, protections);
                // One read answers many attempts in one command.
                let read = after.as_ref().filter(|_| with_others);
                let reply = read.map_or(reply, |after| spec::fast_reply(after, &request, now));
                (after, taken_shortly(reply, &request))
            }
            Step::Insert(request) => {
                match spec::insert(found, &AcquireRequest { sent, ..request }, now, protections) {
                    (after, Some(AcquireReply::Granted(id))) => (after, Answer::Granted(id)),
                    // An insert is refused only if a document exists.
                    (after, _) => (after, Answer::Matched(false)),
                }
            }
            Step::Heartbeat { value } => {
                matched(spec::heartbeat(found, &value, now, sent, LIFE, protections))
            }
            Step::FindEntries { value } => found_entries(found, value),
            Step::HandOff { value, which, to } => {
                let is_left = spec::is_left_to_admit(found.as_ref(), &value, &which, to, now);
                handed_off(spec::hand_off(found, &value, &which, to, now, protections), is_left)
            }
            Step::Renew { key, lasts } => {
                matched(spec::renew(found, &key, lasts, now, sent, protections))
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
            Step::Release { value, which } => {
                matched(spec::release(found, &value, &which, protections))
            }
            Step::Tombstone { value, which } => {
                matched(spec::tombstone(found, &value, &which, protections))
            }
            Step::ReleaseLater { value, which, hold_at_least } => {
                matched(spec::release_later(found, &value, &which, hold_at_least, now))
            }
            Step::ForeignAcquire { value } => {
                matched(spec::foreign_acquire(found, value, now, 4 * HOUR))
            }
            Step::ForeignRelease { value } => matched(spec::foreign_release(found, &value)),
            Step::TtlDelete => {
                let was_there = found.is_some();
                let after = spec::ttl_delete(found, now);
                let is_deleted = was_there && after.is_none();
                (after, Answer::Matched(is_deleted))
            }
            Step::Write(write) => (found.map(|it| write.written_to(it, now)), Answer::Done),
        }
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
            Write::Queue(to) => Document { queue: queue::queue_of(&to, now), ..document },
            Write::DamagedQueue { .. } => Document { queue: Queue::Damaged, ..document },
        }
    }
}

fn found_entries(found: Option<Document>, value: Value) -> (Option<Document>, Answer) {
    let sound = found.as_ref().filter(|it| it.expiry != Expiry::Damaged);
    let is_there = sound.is_some_and(|it| it.queue.position(&value).is_some());
    (found, Answer::Matched(is_there))
}

fn handed_off(
    (after, is_changed): (Option<Document>, bool),
    is_left: bool,
) -> (Option<Document>, Answer) {
    assert!(!(is_changed && is_left), "{after:?}");
    (after, if is_left { Answer::LeftToAdmit } else { Answer::Matched(is_changed) })
}

fn acquired((after, acquired): (Option<Document>, AcquireReply)) -> (Option<Document>, Answer) {
    let answer = match acquired {
        AcquireReply::Granted(id) => Answer::Granted(id),
        AcquireReply::Refused { ahead, remaining } => Answer::refused(ahead, remaining),
    };
    (after, answer)
}

fn taken_shortly(reply: FastReply, request: &AcquireRequest) -> Answer {
    match reply {
        FastReply::Granted => Answer::Granted(request.id),
        FastReply::Refused { remaining } => Answer::refused(None, Some(remaining)),
        FastReply::UseFullForm => Answer::Unclear,
    }
}
