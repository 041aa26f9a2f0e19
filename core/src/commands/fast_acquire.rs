//! Fast attempts: upserts that grant a lease, or admit a call for permits beside others, and otherwise change nothing.
//!
//! They are for documents without a queue. A queue whose waiters have all died is left to the slow acquire, which is
//! three times as long; most leases are free when they are acquired. A fast acquire is single or batched.
//!
//! Under churn the command is told that the document does not exist, and does not look it up: it inserts the document,
//! or is refused because the name is taken. A look-up would walk over all deleted index entries up to the next one.
//!
//! Only for a call whose value is new, and only for attempts before its first slow acquire: a grant found under that
//! value belongs to another attempt, and is never accepted here.

use super::acquire_reply::{HAS_QUEUE, document, fast_projection, read};
use super::admission::is_unexpired;
use super::*;
use crate::rules::guesses::FastForm;

/// One attempt of a call. Its effect is `spec::fast_acquire`, or `spec::insert` for the form that inserts.
#[derive(Clone, Debug)]
pub struct FastAcquire {
    /// The request of its call.
    pub request: Arc<AcquireRequest>,
    /// The number of the attempt.
    pub attempt_no: u32,
    /// The form of the statement.
    pub form: FastForm,
    /// How often it was sent before, in commands that were answered and may have granted it.
    pub resends: u32,
    /// When it was sent first, if it was sent before.
    pub first_sent: Option<Instant>,
}

impl FastAcquire {
    /// The grant id of this sending. Each sending has its own id: the caller may have released what an earlier sending
    /// was granted, and a later sending must not grant it again under the same id.
    pub fn grant_id(&self) -> GrantId {
        self.request.call_id.resent_grant(self.attempt_no, self.resends)
    }

    /// Whether this is the grant id of this sending or of an earlier one.
    fn is_own(&self, grant_id: &GrantId) -> bool {
        let id = |resends| self.request.call_id.resent_grant(self.attempt_no, resends);
        (0..=self.resends).any(|resends| id(resends) == *grant_id)
    }

    /// Selects the document. An empty list has no bounds in the index, so the server reads nothing; the hint still
    /// makes it refuse when the index is missing.
    fn filter(&self) -> Document {
        match self.form {
            FastForm::LookUp => doc! { format::NAME: &self.request.name },
            FastForm::Insert => doc! { format::NAME: { "$in": [] } },
        }
    }

    /// The new document: granted to this call, or unchanged.
    fn granted_or_unchanged(&self, sent: Instant) -> Document {
        let request = self.request.as_ref();
        let grant = anew(request, &self.grant_id(), echo(sent), None);
        let granted = doc! {
            format::VALUE: literal(&request.value),
            format::EXPIRES_AT: now_plus(request.lasts_ms()),
            format::GRANT: with(grant, grant::WRITES, one_more_write()),
        };
        let is_free = all([admission::has_no_holder(), queue::is_empty()]);
        let changes = cond(is_free, granted, doc! {});
        match self.form {
            FastForm::LookUp => merge("$$ROOT", changes),
            // An insert's filter does not set the name.
            FastForm::Insert => {
                let name = doc! { format::NAME: literal(&request.name) };
                doc! { "$mergeObjects": ["$$ROOT", name, changes] }
            }
        }
    }

    /// Tells this attempt's reply from the document that was read after it, and the token that a grant has.
    pub fn read(
        &self,
        found: LeaseSnapshot,
        sent: Instant,
        token: Option<Timestamp>,
    ) -> AcquireReply {
        let LeaseSnapshot { mut info, server_ms, .. } = found;
        // Another program's name may match ours without being a string.
        info.name.clone_from(&self.request.name);
        let is_of_this_value = info.value.as_deref() == Some(&self.request.value);
        let own = info.grant_id.clone().filter(|id| is_of_this_value && self.is_own(id));
        let is_damaged = matches!(info.state, LeaseState::Damaged { .. });
        // A call that waits has to join the queue, and only the slow acquire does that.
        let is_refused =
            info.state == LeaseState::Held && !is_of_this_value && self.request.joins.is_none();
        match own {
            Some(grant_id) if !is_damaged => {
                // An earlier sending may have granted: validity counts from the first one. The document also says when
                // it was sent, and another program may have changed that.
                let is_this = grant_id == self.grant_id();
                let sent = self.first_sent.filter(|_| !is_this).unwrap_or(sent);
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share: None })
            }
            None if is_refused => {
                AcquireReply::Refused(Refused { sent, info, ahead: None, at: token, server_ms })
            }
            own => AcquireReply::UseSlowForm { maybe_granted: own.is_some() },
        }
    }
}

impl Command for FastAcquire {
    type Reply = AcquireReply;
    const LANE: Lane = Lane::Acquire;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let replacement = self.granted_or_unchanged(sent);
        // A call that may wait is granted a lease without a queue, or sends a slow acquire. So the length of the queue,
        // which its reply does not show, is rightly read as 0.
        let fields = match self.request.joins {
            Some(_) => snapshot::projection_without_queue(),
            None => snapshot::projection(),
        };
        upsert(collection, self.filter(), replacement, fields)
    }

    fn relies_on(&self, reply: &AcquireReply) -> Reliance {
        self.request.relies_on(reply)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, DecodeError> {
        let found = snapshot::read(document(reply)?);
        Ok(self.read(found, sent, self.request.token(reply)?))
    }
}

/// One upsert that replaces the document. The reply shows `fields` of the new document.
pub(super) fn upsert(
    collection: &str,
    query: Document,
    replacement: Document,
    fields: Document,
) -> Document {
    doc! {
        "findAndModify": collection,
        "query": query,
        "update": [{ "$replaceWith": replacement }],
        "upsert": true,
        "new": true,
        "fields": fields,
        // The server refuses the hint when the index is missing: without the index, two upserts could both win.
        "hint": { format::NAME: 1 },
        "collation": simple_collation(),
        "writeConcern": majority(),
    }
}

/// The fields of a new grant with this echo; with an expiry, those of a holder in the list.
pub(super) fn anew(
    request: &AcquireRequest,
    grant_id: &GrantId,
    sent: impl Into<Bson>,
    until: Option<Document>,
) -> Document {
    let mut grant = doc! {
        grant::VALUE: literal(&request.value),
        grant::ID: literal(grant_id.as_str()),
        grant::SENT_MICROS: sent.into(),
        grant::OWNER: literal(&*request.owner),
        grant::ACQUIRED_AT: "$$NOW",
    };
    grant.extend(until.map(|until| (holder::EXPIRES_AT.to_owned(), until.into())));
    grant.insert(grant::TTL_MS, millis_up(request.timing.ttl));
    grant.insert(grant::MAX_CLOCK_SKEW_MS, millis_up(request.timing.max_clock_skew));
    grant.insert(grant::METADATA, literal(request.metadata.clone()));
    grant
}

/// Attempts of many calls in one command. The effect of each is `spec::fast_acquire`. [`who_was_granted`] tells the
/// outcome of each, as `spec::fast_reply` does.
#[derive(Clone, Debug)]
pub struct FastAcquireMany {
    /// The attempts, in the order of the statements.
    pub acquires: Vec<FastAcquire>,
}

/// The outcome of a [`FastAcquireMany`].
#[derive(Clone, Debug, PartialEq)]
pub struct FastAcquired {
    /// When the command was sent: validity counts from here.
    pub sent: Instant,
    /// The time of the command's last write or a later one. No older than any of its grants, and newer than any earlier
    /// grant.
    pub at: Timestamp,
    /// The positions of the statements that the server refused.
    pub refused: HashSet<usize>,
    /// How many statements granted a lease. The others changed nothing.
    pub granted: usize,
}

impl Command for FastAcquireMany {
    type Reply = FastAcquired;
    const LANE: Lane = Lane::Acquire;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let statement = |take: &FastAcquire| {
            doc! {
                "q": take.filter(),
                "u": [{ "$replaceWith": take.granted_or_unchanged(sent) }],
                "upsert": true,
                "hint": { format::NAME: 1 },
                "collation": simple_collation(),
            }
        };
        update_many(collection, self.acquires.iter().map(statement).collect())
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<FastAcquired, DecodeError> {
        reply::count(reply)?;
        let at = reply::token(reply)?;
        let inserted = reply.get_array("upserted").map(Vec::len).unwrap_or_default();
        let changed = reply::number(reply, "nModified").and_then(|it| usize::try_from(it).ok());
        let granted = changed.unwrap_or_default() + inserted;
        let refused = reply::write_errors(reply).iter().map(reply::place_of).collect::<Option<_>>();
        let unplaced = || malformed("a write failed, and the server does not say which");
        Ok(FastAcquired { sent, at, refused: refused.ok_or_else(unplaced)?, granted })
    }
}

/// Tells which attempts of a [`FastAcquireMany`] were granted, by a read after it. The replies are in the order of the
/// attempts.
///
/// A token has to be newer than all earlier grants of its name, and older than all later ones. The time of the command
/// is newer than all earlier ones: none of its statements was carried out later. It is older than all later ones if a
/// read that sees everything up to that time finds the very grant still there: any later grant is made after that read,
/// at a later time. This depends on no clock and on no ttl.
pub fn who_was_granted(
    acquires: &[FastAcquire],
    taken: &FastAcquired,
    found: Vec<LeaseSnapshot>,
) -> Vec<AcquireReply> {
    let by_name = found.into_iter().map(|seen| (seen.info.name.clone(), seen));
    let found: HashMap<_, _> = by_name.collect();
    let reply = |(place, take): (usize, &FastAcquire)| match found.get(&take.request.name) {
        Some(seen) => take.read(seen.clone(), taken.sent, Some(taken.at)),
        // Refused, or granted and gone: the call has to find out by itself.
        None => AcquireReply::UseSlowForm { maybe_granted: !taken.refused.contains(&place) },
    };
    acquires.iter().enumerate().map(reply).collect()
}

/// The first attempt of a call under a limit above 1, whose value is new. Its effect is `spec::fast_admit`, and its
/// reply that of `spec::fast_admit_reply`.
#[derive(Clone, Debug)]
pub struct FastAdmit {
    /// The request of its call.
    pub request: Arc<AcquireRequest>,
    /// The number of the attempt.
    pub attempt_no: u32,
}

impl Command for FastAdmit {
    type Reply = AcquireReply;
    const LANE: Lane = Lane::Acquire;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let query = doc! { format::NAME: &self.request.name };
        let mut fields = fast_projection(&self.request.value, self.grant_id().as_str());
        fields.insert(HAS_QUEUE, not(queue::is_empty()));
        upsert(collection, query, self.admitted_or_unchanged(sent), fields)
    }

    fn relies_on(&self, reply: &AcquireReply) -> Reliance {
        self.request.relies_on(reply)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, DecodeError> {
        let found = read(reply, &self.request)?;
        let token = self.request.token(reply)?;
        let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
        let is_refused = info.state == LeaseState::Held
            && info.value.as_ref() != Some(&self.request.value)
            && !found.has_queue
            && self.request.joins.is_none();
        Ok(match found.own {
            Some((grant_id, share)) if grant_id == self.grant_id() => {
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
            }
            None if is_refused => {
                AcquireReply::Refused(Refused { sent, info, ahead: None, at: token, server_ms })
            }
            Some(_) | None => AcquireReply::UseSlowForm { maybe_granted: false },
        })
    }
}

impl FastAdmit {
    fn grant_id(&self) -> GrantId {
        self.request.call_id.grant(self.attempt_no)
    }

    fn admitted_or_unchanged(&self, sent: Instant) -> Document {
        let AcquireRequest { value, permits, .. } = self.request.as_ref();
        let (count, limit) = (i64::from(permits.count()), i64::from(permits.limit()));
        let until = now_plus(self.request.lasts_ms());
        let mut own = anew(&self.request, &self.grant_id(), echo(sent), Some(until));
        own.extend(doc! { holder::PERMITS: count, holder::LIMIT: limit, holder::WRITES: 1_i64 });
        let changes = in_scope(|scope| {
            let elements = scope.bind("elements", admission::elements());
            let unexpired = filter(elements, is_unexpired);
            let kept = cond(admission::is_shared(elements), unexpired, NO_ELEMENT);
            let kept = scope.bind("kept", kept);
            let admitted = bind("all", doc! { "$concatArrays": [kept, [own]] }, |all| {
                doc! {
                    format::VALUE: format::SHARED_VALUE,
                    format::HOLDERS: all,
                    format::EXPIRES_AT: { "$max": all.field(holder::EXPIRES_AT) },
                }
            });
            let limits = doc! { "$concatArrays": [kept.field(holder::LIMIT), [limit]] };
            let in_use = doc! { "$add": [{ "$sum": kept.field(holder::PERMITS) }, count] };
            let is_any = doc! { "$gt": [{ "$size": kept }, 0] };
            let fits = all([
                queue::is_empty(),
                // A late first attempt finds the grant of the second one.
                not(is_in(literal(value), kept.field(holder::VALUE))),
                any([admission::has_no_holder(), is_any]),
                doc! { "$lte": [in_use, { "$min": limits }] },
            ]);
            cond(fits, admitted, doc! {})
        });
        merge("$$ROOT", changes)
    }
}
