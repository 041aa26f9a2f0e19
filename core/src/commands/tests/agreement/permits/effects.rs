//! The results of the steps by the specification.

use crate::spec::permits::{self, Holders, PermitProtections, Share};
use crate::spec::{AcquireReply, Element, Entry, Expiry, FastReply, Queue, Types};

use super::documents::{Put, holders_of};
use super::steps::Permitted;
use crate::commands::tests::agreement::queue;
use crate::commands::tests::agreement::small::{Document, Small};
use crate::commands::tests::agreement::steps::{Answer, HOUR, first_attempt};

impl Permitted {
    /// The step's result by the specification, with these protections.
    pub(super) fn in_the_spec(
        self,
        found: Option<Document>,
        now: i64,
        sent: i64,
        protections: &impl PermitProtections,
    ) -> (Option<Document>, Answer) {
        let matched = |(after, is_there)| (after, Answer::Matched(is_there));
        match self {
            Permitted::Admit(mut request) => {
                request.acquire.sent = sent;
                let (after, reply) = permits::admit(found, &request, now, protections);
                let answer = match reply {
                    AcquireReply::Granted(id) => Answer::Granted(id),
                    AcquireReply::Refused { ahead, remaining } => Answer::refused(ahead, remaining),
                };
                (after, answer)
            }
            Permitted::FastAdmit(mut request) => {
                request.acquire = first_attempt(request.acquire, sent);
                let (after, reply) = permits::fast_admit(found, &request, now, protections);
                let after_reply =
                    after.as_ref().map(|it| permits::fast_admit_reply(it, &request, now));
                assert_eq!(after_reply, Some(reply), "the reply is read from the document");
                let answer = match reply {
                    FastReply::Granted => Answer::Granted(request.acquire.id),
                    FastReply::Refused { remaining } => Answer::refused(None, Some(remaining)),
                    FastReply::UseFullForm => Answer::Unclear,
                };
                (after, answer)
            }
            Permitted::Renew { keys } => {
                let grants: Vec<_> = keys.into_iter().map(|(key, lasts)| (key.id, lasts)).collect();
                matched(permits::renew_permits(found, &grants, now, sent, protections))
            }
            Permitted::ReleaseAndAdmit { value, which, scope } => {
                matched(permits::release_and_admit(found, &value, &which, scope, now, protections))
            }
            Permitted::ReleasePermit { key } => matched(permits::release_permit(found, &key)),
            Permitted::DeleteLastHolder { key } => {
                matched(permits::delete_last_holder(found, &key))
            }
            Permitted::Other(step) => step.in_the_spec(found, now, sent, protections),
            Permitted::WriteHolders { holders, top } => {
                let written = |document| in_shared_use(document, &holders, top, now);
                (found.map(written), Answer::Done)
            }
            Permitted::WriteNoHolders { .. } => {
                let written = |document| Document { holders: Holders::Damaged, ..document };
                (found.map(written), Answer::Done)
            }
            Permitted::WriteShares { queue, shares } => {
                let queue = queue.map(|puts| queue::queue_of(&puts, now));
                let written = |document: Document| {
                    let queue = with_shares(queue.unwrap_or(document.queue), &shares);
                    Document { queue, ..document }
                };
                (found.map(written), Answer::Done)
            }
        }
    }
}

/// The document after [`Permitted::WriteHolders`].
fn in_shared_use(document: Document, puts: &[Put], top: Option<Expiry>, now: i64) -> Document {
    let holders = holders_of(puts, now);
    let expiry = match top {
        Some(Expiry::At(hours)) => Expiry::At(now + hours * HOUR),
        Some(other) => other,
        None => Expiry::At(latest(puts, now)),
    };
    Document { value: Some(Small::shared()), expiry, holders, ..document }
}

/// The latest expiry of these holders; without one, an hour ago.
pub(super) fn latest(puts: &[Put], now: i64) -> i64 {
    puts.iter().filter_map(|put| put.expires_at(now)).max().unwrap_or(now - HOUR)
}

/// The queue with these shares of its elements, in turn.
fn with_shares(queue: Queue<Small>, shares: &[Option<Share>]) -> Queue<Small> {
    let Queue::List(elements) = queue else {
        return queue;
    };
    let shared = |(element, share): (Element<Small>, Option<Share>)| match element {
        Element::Entry(entry) => Element::Entry(Entry { share, ..entry }),
        damaged @ Element::Damaged(_) => damaged,
    };
    let shares = shares.iter().copied().cycle();
    Queue::List(elements.into_iter().zip(shares).map(shared).collect())
}
