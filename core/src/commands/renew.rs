//! Commands of the holder of an exclusive lease: renew, resume, guard, and the token of a server without an oplog.

use super::*;
use crate::rules::timing::{TTL_MAX, TTL_MIN};

/// The identity of one grant. In one piece of memory, because a process may hold many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantKey {
    /// The name, the value, and the grant id; the value is part of the id where the id begins with it.
    texts: Box<str>,
    /// The length of the name, in bytes.
    name: u32,
    /// The length of the value, in bytes; less than zero where the value is part of the id.
    value: i32,
}

impl GrantKey {
    /// The key of a grant.
    pub fn new(name: &str, value: &str, grant_id: &GrantId) -> GrantKey {
        let grant_id = grant_id.as_str();
        let value_len = i32::try_from(value.len()).unwrap_or(i32::MAX);
        let (texts, value) = match grant_id.starts_with(value) {
            true => (format!("{name}{grant_id}"), -value_len),
            false => (format!("{name}{value}{grant_id}"), value_len),
        };
        GrantKey { texts: texts.into(), name: u32::try_from(name.len()).unwrap_or(u32::MAX), value }
    }

    #[inline]
    /// The lease's name.
    pub fn name(&self) -> &str {
        &self.texts[..self.name as usize]
    }

    #[inline]
    /// The holder's value.
    pub fn value(&self) -> &str {
        &self.texts[self.name as usize..][..self.value.unsigned_abs() as usize]
    }

    #[inline]
    /// The id of the grant.
    pub fn grant_id(&self) -> &str {
        // Nothing is left out where the value is part of the id.
        let before = self.value.max(0).unsigned_abs();
        &self.texts[self.name as usize..][before as usize..]
    }

    /// Selects the document in which this grant has the lease.
    fn filter(&self) -> Document {
        doc! {
            format::NAME: self.name(),
            format::VALUE: self.value(),
            grant_field(grant::ID): self.grant_id(),
        }
    }

    /// The same where the expiry is a date. A corrupt document is not repaired.
    fn filter_with_date(&self) -> Document {
        with(self.filter(), format::EXPIRES_AT, doc! { "$type": "date" })
    }
}

/// One grant to be renewed.
#[derive(Clone, Debug)]
pub struct RenewalTarget {
    /// The grant.
    pub key: Arc<GrantKey>,
    /// For how long from now: the holder's own ttl and maximum clock skew. The command carries it, because the holder
    /// relies on it, and a number in the document may be damaged.
    pub lasts: Duration,
}

/// Renews each of these grants that is still held. The effect on each is `spec::renew`.
///
/// Each distinct time has a statement of its own, and most managers have one for all of their leases.
///
/// The filter takes names, values and ids from three lists, so it could match a name with another's value. It does not:
/// an id is random and belongs to one name and one value.
#[derive(Clone, Debug)]
pub struct RenewMany {
    /// The grants, each with its duration.
    pub grants: Vec<RenewalTarget>,
}

impl Command for RenewMany {
    type Reply = Matched;
    const LANE: Lane = Lane::Critical;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut by_time: BTreeMap<Duration, Vec<&GrantKey>> = BTreeMap::new();
        for grant in &self.grants {
            by_time.entry(grant.lasts).or_default().push(&grant.key);
        }
        let statement = |(lasts, keys): (Duration, Vec<&GrantKey>)| {
            let every = |field: fn(&GrantKey) -> &str| {
                doc! { "$in": keys.iter().map(|key| field(key)).collect::<Vec<_>>() }
            };
            let filter = doc! {
                format::NAME: every(GrantKey::name),
                format::VALUE: every(GrantKey::value),
                grant_field(grant::ID): every(GrantKey::grant_id),
                // A corrupt document is not repaired; its holder is told that the lease is lost. It is an expression
                // for the reason that `has_sound_expiry` names.
                "$expr": is_date(format::EXPIRES_AT),
            };
            statement_for_each(filter, set(prolonged(millis_up(lasts), sent)))
        };
        update_each(collection, by_time.into_iter().map(statement).collect())
    }

    fn relies_on(&self, renewed: &Matched) -> Reliance {
        renewal_relies_on(&self.grants, renewed)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Matched, DecodeError> {
        decode_update(reply, sent)
    }
}

/// The writes that somebody relies on after a renewal of these grants: all of them, if any was matched.
pub(super) fn renewal_relies_on(grants: &[RenewalTarget], renewed: &Matched) -> Reliance {
    let trace = |grant: &RenewalTarget| Trace::Prolonged(GrantKey::clone(&grant.key), renewed.sent);
    match renewed.matched {
        0 => Reliance::Nothing,
        _ => Reliance::Writes(grants.iter().map(trace).collect()),
    }
}

/// Resumes a lease that another process detached: renews it under a new grant id, if it is still held. Its effect is
/// `spec::resume`.
///
/// The new id invalidates the old key: a second resume with it finds nothing. The caller chooses the id before it
/// sends, so a repetition after a lost reply finds what the first attempt resumed.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The key under which the lease was detached.
    pub key: GrantKey,
    /// The grant id from now on. The key's own: then the key stays valid, and the lease is only renewed.
    pub fresh_id: GrantId,
    /// The ttl from now on. `None` keeps that of the document, if a lease may have it.
    pub ttl: Option<Duration>,
    /// The manager's own: its maximum clock skew, and the ttl where that of the document is damaged.
    pub timing: Arc<Timing>,
}

impl Command for Resume {
    /// When it was sent, and the document that was found, with the ttl that was written; `None` when the lease is not
    /// held any more.
    type Reply = Option<(Instant, LeaseSnapshot)>;
    const LANE: Lane = Lane::Critical;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut query = self.key.filter_with_date();
        let id = grant_field(grant::ID);
        query.insert(&id, doc! { "$in": [self.key.grant_id(), self.fresh_id.as_str()] });
        // A detached lease may expire before it is resumed, and then anybody may acquire it.
        query.insert("$expr", doc! { "$gt": [path(format::EXPIRES_AT), "$$NOW"] });
        let ttl = self.ttl.map_or_else(|| self.stored_ttl(), |ttl| millis_up(ttl).into());
        let skew = millis_up(self.timing.max_clock_skew);
        let mut resumed = prolonged(doc! { "$add": [&ttl, skew] }, sent);
        resumed.insert(id, literal(self.fresh_id.as_str()));
        resumed.insert(grant_field(grant::TTL_MS), ttl);
        resumed.insert(grant_field(grant::MAX_CLOCK_SKEW_MS), skew);
        resumed.insert(grant_field(grant::WRITES), one_more_write());
        find_and_modify(collection, query, set(resumed), snapshot::projection())
    }

    fn relies_on(&self, resumed: &Self::Reply) -> Reliance {
        let key = || GrantKey::new(self.key.name(), self.key.value(), &self.fresh_id);
        let on = |(sent, seen): &(Instant, LeaseSnapshot)| {
            Reliance::on_grant(key(), *sent, seen.info.acquired_at)
        };
        resumed.as_ref().map_or(Reliance::Nothing, on)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Self::Reply, DecodeError> {
        let Ok(document) = reply.get_document("value") else { return Ok(None) };
        let mut seen = snapshot::read(document);
        // The filter matched the grant, and whoever relies on it checks for itself.
        let grant = document.get_document(format::GRANT).ok();
        let grant_id = grant.and_then(|it| it.get_str(grant::ID).ok());
        seen.ttl_ms = grant.and_then(|it| it.get_i64(grant::TTL_MS).ok());
        let is_ours = seen.info.value.as_deref() == Some(self.key.value())
            && grant_id == Some(self.fresh_id.as_str())
            && seen.ttl_ms.is_some();
        let another = || malformed("the reply to a resume contains another grant");
        is_ours.then_some(Some((sent, seen))).ok_or_else(another)
    }
}

impl Resume {
    /// The terms as `spec::resume` has them.
    pub fn terms(&self) -> crate::spec::ResumeTerms {
        crate::spec::ResumeTerms {
            ttl: self.ttl.map(millis_up),
            default_ttl: millis_up(self.timing.ttl),
            max_clock_skew: millis_up(self.timing.max_clock_skew),
            bounds: (millis_up(TTL_MIN), millis_up(TTL_MAX)),
        }
    }

    /// The ttl in the document; the manager's own where no lease may have that one. The reply shows which of them was
    /// written, and the holder relies on that.
    fn stored_ttl(&self) -> Bson {
        let stored = grant_path(grant::TTL_MS);
        let is_sound = all([
            eq(doc! { "$type": &stored }, "long"),
            doc! { "$gte": [&stored, millis_up(TTL_MIN)] },
            doc! { "$lte": [&stored, millis_up(TTL_MAX)] },
        ]);
        cond(is_sound, stored, millis_up(self.timing.ttl)).into()
    }
}

/// Writes to the lease document within the caller's own transaction, so that a take-over conflicts with it. Its effect
/// is `spec::guard`.
///
/// It *changes* the document: a read, or a write that changes nothing, would not conflict. It prolongs the lease,
/// because otherwise a take-over that waits for the commit would win right after it. It carries no write concern: the
/// commit has its own. It is no [`Command`]: the caller sends it in the session of the transaction.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The grant.
    pub key: Arc<GrantKey>,
    /// For how long it prolongs the lease: the holder's own ttl and maximum clock skew.
    pub lasts: Duration,
}

impl Guard {
    /// Builds the command document.
    pub fn build(&self, collection: &str, sent: Instant) -> Document {
        let prolonged = prolonged(millis_up(self.lasts), sent);
        let guarded = with(prolonged, grant_field(grant::WRITES), one_more_write());
        let statement = statement(self.key.filter_with_date(), set(guarded));
        doc! { "update": collection, "updates": [statement] }
    }

    /// Whether this holder still had the lease.
    pub fn decode(&self, reply: &Document, sent: Instant) -> Result<Matched, DecodeError> {
        decode_update(reply, sent)
    }
}

/// Gets a timestamp from the counter of a server without an oplog, by writing it into the lease document.
///
/// The counter starts from the server's wall clock: the second, and a number that begins at one in each second. If the
/// clock is set back across a restart, tokens go back. If the server is back within the second in which it ended,
/// tokens may be repeated.
#[derive(Clone, Debug)]
pub struct StandaloneToken {
    /// The grant that has no token yet.
    pub key: GrantKey,
}

impl Command for StandaloneToken {
    /// `None` when this holder has lost the lease.
    type Reply = Option<Timestamp>;
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let tick = grant_field(grant::STANDALONE_TOKEN);
        let update = doc! { "$currentDate": { &tick: { "$type": "timestamp" } } };
        find_and_modify(collection, self.key.filter(), update, doc! { "_id": 0, tick: 1 })
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Option<Timestamp>, DecodeError> {
        let Ok(document) = reply.get_document("value") else { return Ok(None) };
        let grant = document.get_document(format::GRANT);
        let tick = grant.and_then(|grant| grant.get_timestamp(grant::STANDALONE_TOKEN));
        tick.map(Some).map_err(|_| malformed("the reply to a token update contains no timestamp"))
    }
}

/// The fields that a renewal changes, where it prolongs for so many milliseconds.
///
/// No number in the document has a part in it: a damaged one would let the holder believe for longer than the server.
/// The echo is new each time, and tells which documents this very command has written.
///
/// `$max` is necessary. The server takes `$$NOW` when a command arrives, before it waits for locks. A plain value would
/// let a delayed older renewal shorten a newer one, and the holder would rely on the lease for longer than it has it.
fn prolonged(lasts: impl Into<Bson>, sent: Instant) -> Document {
    doc! {
        format::EXPIRES_AT: max(path(format::EXPIRES_AT), now_plus(lasts)),
        grant_field(grant::SENT_MICROS): echo(sent),
    }
}
